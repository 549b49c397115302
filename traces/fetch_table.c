/* The public traces' addresses. Sizes and checksums only where someone has published them. */
#include "traces/fetch.h"

#include <string.h>

#include "core/near.h"

#define AZURE_2023 "https://raw.githubusercontent.com/Azure/AzurePublicDataset/master/data/"
#define AZURE_2024 "https://github.com/Azure/AzurePublicDataset/releases/download/dataset-llm-2024/"
#define MOONCAKE "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/FAST25-release/"
#define BURSTGPT "https://github.com/HPMLL/BurstGPT/releases/download/v1.1/"
#define BAILIAN "https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon/raw/refs/heads/main/"

const struct fetch_trace fetch_traces[] = {
	{.name = "azure-2023-conv",
	 .url = AZURE_2023 "AzureLLMInferenceTrace_conv.csv",
	 .file = "AzureLLMInferenceTrace_conv.csv",
	 .format = "azure",
	 .licence = "CC-BY",
	 .about = "Azure conversation service, 1 hour of November 2023, 19,366 requests (Splitwise, ISCA 2024)"},
	{.name = "azure-2023-code",
	 .url = AZURE_2023 "AzureLLMInferenceTrace_code.csv",
	 .file = "AzureLLMInferenceTrace_code.csv",
	 .format = "azure",
	 .licence = "CC-BY",
	 .about = "Azure code completion, 1 hour of November 2023, 8,819 requests (Splitwise, ISCA 2024)"},
	{.name = "azure-2024-conv",
	 .url = AZURE_2024 "AzureLLMInferenceTrace_conv_1week.csv",
	 .file = "AzureLLMInferenceTrace_conv_1week.csv",
	 .format = "azure",
	 .licence = "CC-BY",
	 .about = "Azure conversation service, a week of May 2024 (DynamoLLM, HPCA 2025)"},
	{.name = "azure-2024-code",
	 .url = AZURE_2024 "AzureLLMInferenceTrace_code_1week.csv",
	 .file = "AzureLLMInferenceTrace_code_1week.csv",
	 .format = "azure",
	 .licence = "CC-BY",
	 .about = "Azure code completion, a week of May 2024 (DynamoLLM, HPCA 2025)"},
	{.name = "mooncake-conversation",
	 .url = MOONCAKE "traces/conversation_trace.jsonl",
	 .file = "mooncake_conversation.jsonl",
	 .format = "mooncake",
	 .licence = "Apache-2.0",
	 .about = "Kimi conversations, 12,031 requests with 512-token block hashes (Mooncake, FAST 2025)"},
	{.name = "mooncake-synthetic",
	 .url = MOONCAKE "traces/synthetic_trace.jsonl",
	 .file = "mooncake_synthetic.jsonl",
	 .format = "mooncake",
	 .licence = "Apache-2.0",
	 .about = "long-context data sets replayed, 3,993 requests with block hashes (Mooncake, FAST 2025)"},
	{.name = "mooncake-toolagent",
	 .url = MOONCAKE "traces/toolagent_trace.jsonl",
	 .file = "mooncake_toolagent.jsonl",
	 .format = "mooncake",
	 .licence = "Apache-2.0",
	 .about = "Kimi tools and agents, 23,608 requests with block hashes (Mooncake, FAST 2025)"},
	{.name = "mooncake-arxiv",
	 .url = MOONCAKE "arxiv-trace/mooncake_trace.jsonl",
	 .file = "mooncake_arxiv.jsonl",
	 .format = "mooncake",
	 .licence = "Apache-2.0",
	 .about = "the trace of the technical report, with block hashes (Mooncake, arXiv 2024)"},
	{.name = "burstgpt",
	 .url = BURSTGPT "BurstGPT_1.csv",
	 .file = "BurstGPT_1.csv",
	 .format = "burstgpt",
	 .licence = "CC-BY-4.0",
	 .about = "GPT-3.5 and GPT-4 at a university, two months, 1.4 million requests, failures included"},
	{.name = "burstgpt-without-fails",
	 .url = BURSTGPT "BurstGPT_without_fails_1.csv",
	 .file = "BurstGPT_without_fails_1.csv",
	 .format = "burstgpt",
	 .licence = "CC-BY-4.0",
	 .about = "the same without failed requests"},
	{.name = "burstgpt-2",
	 .url = BURSTGPT "BurstGPT_2.csv",
	 .file = "BurstGPT_2.csv",
	 .format = "burstgpt",
	 .licence = "CC-BY-4.0",
	 .about = "the next two months, 3.9 million requests, failures included"},
	{.name = "sharegpt",
	 .url = "https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/"
		"ShareGPT_V3_unfiltered_cleaned_split.json",
	 .file = "ShareGPT_V3_unfiltered_cleaned_split.json",
	 .bytes = 672837942,
	 .sha256 = "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4",
	 .format = "sharegpt",
	 .licence = "none stated",
	 .about = "conversations people shared, the set vLLM benchmarks with; no arrival times"},
	{.name = "bailian-a",
	 .url = BAILIAN "qwen_traceA_blksz_16.jsonl",
	 .file = "qwen_traceA_blksz_16.jsonl",
	 .format = "bailian",
	 .licence = "Apache-2.0",
	 .about = "Qwen on Alibaba Bailian, trace A: consumers' chat, 16-token block hashes (USENIX ATC 2025)"},
	{.name = "bailian-b",
	 .url = BAILIAN "qwen_traceB_blksz_16.jsonl",
	 .file = "qwen_traceB_blksz_16.jsonl",
	 .format = "bailian",
	 .licence = "Apache-2.0",
	 .about = "Qwen on Alibaba Bailian, trace B: businesses' API calls, 16-token block hashes (USENIX ATC 2025)"},
	{.name = "bailian-coder",
	 .url = BAILIAN "qwen_coder_blksz_16.jsonl",
	 .file = "qwen_coder_blksz_16.jsonl",
	 .format = "bailian",
	 .licence = "Apache-2.0",
	 .about = "Qwen on Alibaba Bailian: code generation, 16-token block hashes"},
	{.name = "bailian-thinking",
	 .url = BAILIAN "qwen_thinking_blksz_16.jsonl",
	 .file = "qwen_thinking_blksz_16.jsonl",
	 .format = "bailian",
	 .licence = "Apache-2.0",
	 .about = "Qwen on Alibaba Bailian: a reasoning model, 16-token block hashes"},
};

const int fetch_n_traces = (int)(sizeof fetch_traces / sizeof fetch_traces[0]);

const struct fetch_trace *fetch_find(const char *name, struct near_match *near)
{
	if (near)
		near_begin(near, name);
	for (int i = 0; i < fetch_n_traces; i++) {
		if (!strcmp(fetch_traces[i].name, name))
			return &fetch_traces[i];
		if (near)
			near_offer(near, fetch_traces[i].name);
	}
	return NULL;
}
