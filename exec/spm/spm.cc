// spm.cc: exec/spm/spm_api.h on SentencePiece's library.
#include "exec/spm/spm_api.h"

#include <sentencepiece_processor.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace
{

const char space_mark[] = "\xe2\x96\x81"; // U+2581 stands for a space in pieces

struct spm {
	sentencepiece::SentencePieceProcessor processor;
	std::string piece;
	bool adds_space = false;
};

void *spm_open(const void *bytes, size_t n, char *why, size_t size)
{
	spm *s = nullptr;
	try {
		s = new spm;
		const auto status =
			s->processor.LoadFromSerializedProto(std::string(static_cast<const char *>(bytes), n));
		if (status.ok()) {
			std::vector<std::string> pieces;
			(void)s->processor.Encode("a", &pieces);
			s->adds_space = !pieces.empty() && pieces[0].compare(0, 3, space_mark) == 0;
			return s;
		}
		std::snprintf(why, size, "%s", status.ToString().c_str());
	} catch (const std::exception &x) {
		std::snprintf(why, size, "%s", x.what());
	}
	delete s;
	return nullptr;
}

void spm_close(void *p)
{
	delete static_cast<spm *>(p);
}

int32_t spm_vocab(void *p)
{
	return static_cast<spm *>(p)->processor.GetPieceSize();
}

int32_t spm_bos(void *p)
{
	return static_cast<spm *>(p)->processor.bos_id();
}

int32_t spm_eos(void *p)
{
	return static_cast<spm *>(p)->processor.eos_id();
}

int spm_adds_space(void *p)
{
	return static_cast<spm *>(p)->adds_space;
}

int spm_encode(void *p, const char *text, size_t n, int (*put)(void *, int32_t), void *ctx, char *why, size_t size)
{
	try {
		std::vector<int> ids;
		const auto status = static_cast<spm *>(p)->processor.Encode(std::string(text, n), &ids);
		if (!status.ok()) {
			std::snprintf(why, size, "%s", status.ToString().c_str());
			return -1;
		}
		for (const int id : ids)
			if (const int rc = put(ctx, id))
				return rc;
		return 0;
	} catch (const std::exception &x) {
		std::snprintf(why, size, "%s", x.what());
		return -1;
	}
}

const char *spm_piece(void *p, int32_t id, int32_t *len)
{
	spm *s = static_cast<spm *>(p);
	*len = 0;
	try {
		s->piece.clear();
		if (s->processor.IsUnknown(id))
			s->piece = " \xe2\x81\x87 "; // as SentencePiece shows it: U+2047 between spaces
		else if (!s->processor.IsControl(id))
			s->piece = s->processor.IdToPiece(id);
		for (size_t at = 0; (at = s->piece.find(space_mark, at)) != std::string::npos; at++)
			s->piece.replace(at, 3, " ");
	} catch (const std::exception &) {
		return "";
	}
	*len = static_cast<int32_t>(s->piece.size());
	return s->piece.c_str();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const spm_api lockstep_spm_api = {
	SPM_API_VERSION, spm_open, spm_close, spm_vocab, spm_bos, spm_eos, spm_adds_space, spm_encode, spm_piece,
};
