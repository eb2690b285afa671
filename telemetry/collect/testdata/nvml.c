// A library with the symbols of NVML that the collector calls, for two GPUs. Files in the
// working directory make it fail: "lost" and "hang" concern GPU 1, "gone" the driver.
// OLD leaves functions out that drivers before 2022 lack.
#include <string.h>
#include <unistd.h>

typedef int ret;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long device;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_LOADED = 9, TIMEOUT = 10, LOST = 15 };

static int begun;

static int there(const char *name) { return access(name, F_OK) == 0; }

static ret state(device d) {
	if (!begun || there("gone"))
		return UNINITIALIZED;
	if (d == 2) {
		while (there("hang"))
			usleep(1000);
		if (there("lost"))
			return LOST;
	}
	return OK;
}

ret nvmlInit_v2(void) {
	if (there("gone"))
		return NOT_LOADED;
	begun = 1;
	return OK;
}

ret nvmlShutdown(void) {
	begun = 0;
	return OK;
}

ret nvmlDeviceGetCount_v2(u32 *n) {
	*n = 2;
	return state(1);
}

ret nvmlDeviceGetHandleByIndex_v2(u32 i, device *d) {
	*d = i + 1;
	return state(*d);
}

ret nvmlDeviceGetIndex(device d, u32 *i) {
	*i = d - 1;
	return OK;
}

ret nvmlDeviceGetUUID(device d, char *s, u32 n) {
	strncpy(s, d == 1 ? "GPU-a" : "GPU-b", n);
	return state(d);
}

ret nvmlDeviceGetUtilizationRates(device d, u32 u[2]) {
	u[0] = 90 + d;
	u[1] = 5;
	return state(d);
}

ret nvmlDeviceGetMemoryInfo(device d, u64 m[3]) { // total, free, used
	m[0] = 81920ull << 20;
	m[2] = 1024ull << 20;
	return state(d);
}

#ifndef OLD
struct memory2 {
	u32 version;
	u64 total, reserved, free, used;
};

ret nvmlDeviceGetMemoryInfo_v2(device d, struct memory2 *m) {
	if (m->version != (sizeof *m | 2 << 24))
		return INVALID;
	m->total = 81920ull << 20;
	m->used = 512ull << 20;
	return state(d);
}

struct process {
	u32 pid;
	u64 used;
	u32 gpu, compute;
};

ret nvmlDeviceGetComputeRunningProcesses_v3(device d, u32 *n, struct process *p) {
	u32 room = *n;
	*n = 3;
	if (room < 3)
		return 7; // insufficient size
	for (u32 i = 0; i < 3; i++)
		p[i].pid = 100 * d + i;
	return state(d);
}

ret nvmlDeviceGetTotalEnergyConsumption(device d, u64 *mj) {
	*mj = 1234500;
	return state(d);
}
#endif

ret nvmlDeviceGetPowerUsage(device d, u32 *mw) {
	*mw = 300000 + d;
	return state(d);
}

ret nvmlDeviceGetTemperature(device d, int sensor, u32 *c) {
	*c = 60 + sensor;
	return state(d);
}

ret nvmlDeviceGetClockInfo(device d, int type, u32 *mhz) {
	*mhz = 1000 + type;
	return state(d);
}

ret nvmlDeviceGetApplicationsClock(device d, int type, u32 *mhz) {
	*mhz = 2000 + type;
	return NOT_SUPPORTED;
}

ret nvmlDeviceGetCurrentClocksThrottleReasons(device d, u64 *bits) {
	*bits = 0x4;
	return state(d);
}

ret nvmlDeviceGetMigMode(device d, u32 *now, u32 *next) { return NOT_SUPPORTED; }

struct event {
	device d;
	u64 type, data;
	u32 gpu, compute;
};

ret nvmlEventSetCreate(long *set) {
	*set = 7;
	return OK;
}

ret nvmlEventSetFree(long set) { return OK; }

ret nvmlDeviceRegisterEvents(device d, u64 types, long set) { return types == 8 && set == 7 ? OK : INVALID; }

ret nvmlEventSetWait_v2(long set, struct event *e, u32 ms) {
	if (unlink("xid"))
		return TIMEOUT;
	memset(e, 0, sizeof *e);
	e->d = 1;
	e->type = 8;
	e->data = 31;
	return OK;
}
