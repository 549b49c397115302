/* plant.cpp: the places where kernels wait, by name, so that each in turn can be passed by (tests/cuda_host/shim.h). */
#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda_host/shim.h"

static std::vector<std::string> sites;
int shim_dropped = -1;

int shim_sites(void)
{
	return (int)sites.size();
}
const char *shim_site_name(int site)
{
	return sites[(size_t)site].c_str();
}
int shim_site(const char *file, int line, const char *what)
{
	std::string name = std::string(what) + " at " + file + ":" + std::to_string(line);
	size_t i = (size_t)(std::find(sites.begin(), sites.end(), name) - sites.begin());
	if (i == sites.size())
		sites.push_back(name);
	return (int)i;
}
