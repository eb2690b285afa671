//go:build nvml && cgo

package collect

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/autosched/autosched/telemetry"
)

// NewDriver returns the driver of NVIDIA's GPUs.
func NewDriver() (Driver, error) { return newNVML(nvml.New()), nil }

// library is NVML. A function that the library of the installed driver lacks would end
// the process when it is called, as would any call without a session: every call asks
// first.
type library struct {
	api     nvml.Interface
	session int // number of the session, 0 while there is none
	begun   int // sessions so far
	has     map[string]bool
	events  nvml.EventSet // nil where errors cannot be waited for
	watched map[int]bool  // by GPU
	gpms    map[gpmKey]*gpm
	gpmRoom []nvml.GpmSample
}

// gpmKey is a device of a session.
type gpmKey struct{ index, instance int }

func newNVML(api nvml.Interface) *library { return &library{api: api} }

// The functions that are called, by the names of their symbols.
const (
	fnUtilization = "nvmlDeviceGetUtilizationRates"
	fnMemory      = "nvmlDeviceGetMemoryInfo"
	fnMemory2     = "nvmlDeviceGetMemoryInfo_v2"
	fnPower       = "nvmlDeviceGetPowerUsage"
	fnEnergy      = "nvmlDeviceGetTotalEnergyConsumption"
	fnTemperature = "nvmlDeviceGetTemperature"
	fnClock       = "nvmlDeviceGetClockInfo"
	fnAppClock    = "nvmlDeviceGetApplicationsClock"
	fnThrottle    = "nvmlDeviceGetCurrentClocksThrottleReasons"
	fnProcesses   = "nvmlDeviceGetComputeRunningProcesses"
	fnMigMode     = "nvmlDeviceGetMigMode"
	fnMigCount    = "nvmlDeviceGetMaxMigDeviceCount"
	fnMigHandle   = "nvmlDeviceGetMigDeviceHandleByIndex"
	fnInstance    = "nvmlDeviceGetGpuInstanceId"
	fnUUID        = "nvmlDeviceGetUUID"
	fnIndex       = "nvmlDeviceGetIndex"
	fnEventSet    = "nvmlEventSetCreate"
	fnRegister    = "nvmlDeviceRegisterEvents"
	fnWait        = "nvmlEventSetWait"
)

var functions = []string{fnUtilization, fnMemory, fnMemory2, fnPower, fnEnergy, fnTemperature, fnClock, fnAppClock,
	fnThrottle, fnProcesses, fnMigMode, fnMigCount, fnMigHandle, fnInstance, fnUUID, fnIndex, fnEventSet, fnRegister,
	fnWait, fnGPMSupport, fnGPMAlloc, fnGPMFree, fnGPMGet, fnGPMMig, fnGPMMetrics}

// Init implements Driver.
func (l *library) Init() error {
	if l.session != 0 {
		return nil
	}
	if ret := l.api.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("NVML does not start: %s", word(ret))
	}
	l.begun++
	l.session = l.begun
	l.has, l.watched, l.gpms = map[string]bool{}, map[int]bool{}, map[gpmKey]*gpm{}
	offers := func(name string) bool { return l.api.Extensions().LookupSymbol(name) == nil }
	for _, name := range functions {
		l.has[name] = offers(name)
	}
	for _, name := range []string{fnProcesses, fnWait} { // the binding calls the latest version
		l.has[name] = l.has[name] || offers(name+"_v2") || offers(name+"_v3")
	}
	if l.has[fnEventSet] && l.has[fnRegister] && l.has[fnWait] && l.has[fnIndex] {
		if set, ret := l.api.EventSetCreate(); ret == nvml.SUCCESS {
			l.events = set
		}
	}
	return nil
}

// Shutdown implements Driver.
func (l *library) Shutdown() {
	if l.session == 0 {
		return
	}
	if l.events != nil {
		l.events.Free()
	}
	for _, sample := range l.gpmRoom {
		l.api.GpmSampleFree(sample)
	}
	l.session, l.events, l.gpmRoom = 0, nil, nil
	l.api.Shutdown()
}

// word names a code without a call: the library may be gone.
func word(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 is not found: is the driver of the GPUs installed?"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver of the GPUs is not loaded"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the driver and its library have different versions: one was upgraded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to talk to the driver of the GPUs"
	}
	return fmt.Sprintf("code %d", int(ret))
}

// check makes an error of a code that concerns more than one quantity.
func check(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_RESET_REQUIRED:
		return ErrLost
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return ErrSession
	}
	return nil
}

// Devices implements Driver.
func (l *library) Devices() ([]Device, error) {
	if l.session == 0 {
		return nil, ErrSession
	}
	n, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		if err := check(ret); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the GPUs cannot be counted: %s", word(ret))
	}
	var all []Device
	for i := range n {
		handle, ret := l.api.DeviceGetHandleByIndex(i)
		if err := check(ret); ret != nvml.SUCCESS {
			if err == ErrSession {
				return nil, err
			}
			all = append(all, Device{Index: i, Instance: -1,
				Read: func(_ *telemetry.GPUSample, pids []int) ([]int, error) { return pids, ErrLost }})
			continue
		}
		l.watch(i, handle)
		all = append(all, l.device(i, -1, handle, []nvml.Device{handle}, l.watched[i]))
		for _, m := range l.instances(handle) {
			all = append(all, l.device(i, m.id, handle, m.handles, false))
		}
	}
	return all, nil
}

// instance is a MIG instance with a handle for each of its compute instances.
type instance struct {
	id      int
	handles []nvml.Device
}

func (l *library) instances(gpu nvml.Device) []instance {
	if !l.has[fnMigMode] || !l.has[fnMigCount] || !l.has[fnMigHandle] || !l.has[fnInstance] {
		return nil
	}
	mode, _, ret := gpu.GetMigMode()
	if ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	n, ret := gpu.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var all []instance
	at := map[int]int{}
	for i := range n {
		handle, ret := gpu.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS { // indices of instances that do not exist
			continue
		}
		id, ret := handle.GetGpuInstanceId()
		if ret != nvml.SUCCESS {
			continue
		}
		if k, ok := at[id]; ok {
			all[k].handles = append(all[k].handles, handle)
			continue
		}
		at[id] = len(all)
		all = append(all, instance{id, []nvml.Device{handle}})
	}
	return all
}

func (l *library) device(index, id int, gpu nvml.Device, handles []nvml.Device, watched bool) Device {
	d := Device{Index: index, Instance: id}
	counters, known := l.gpms[gpmKey{index, id}]
	if !known && (id < 0 || l.has[fnGPMMig]) {
		counters = l.newGPM(gpu)
		l.gpms[gpmKey{index, id}] = counters
	}
	if l.has[fnUUID] {
		d.UUID, _ = handles[0].GetUUID()
	}
	session := l.session
	d.Read = func(s *telemetry.GPUSample, pids []int) ([]int, error) {
		if l.session != session {
			return pids, ErrSession
		}
		if err := l.memory(handles[0], s); err != nil {
			return pids, err
		}
		for _, h := range handles {
			var err error
			if pids, err = l.processes(h, s, pids); err != nil {
				return pids, err
			}
		}
		if counters != nil {
			if err := l.counters(gpu, id, counters, s); err != nil {
				return pids, err
			}
		}
		if id >= 0 { // all else belongs to the whole GPU
			return pids, nil
		}
		if watched {
			s.Known |= telemetry.Xid
		}
		return pids, l.rest(handles[0], s)
	}
	return d
}

const mib = 1 << 20

func (l *library) memory(d nvml.Device, s *telemetry.GPUSample) error {
	var used, total uint64
	ret := nvml.ERROR_NOT_SUPPORTED
	if l.has[fnMemory2] { // the other counts the driver's reserve as used
		var m nvml.Memory_v2
		m, ret = d.GetMemoryInfo_v2()
		used, total = m.Used, m.Total
	}
	if err := check(ret); err != nil {
		return err
	}
	if ret != nvml.SUCCESS && l.has[fnMemory] {
		var m nvml.Memory
		m, ret = d.GetMemoryInfo()
		used, total = m.Used, m.Total
	}
	if ret == nvml.SUCCESS {
		s.MemoryUsed, s.MemoryTotal = float64(used)/mib, float64(total)/mib
		s.Known |= telemetry.MemoryUsed | telemetry.MemoryTotal
	}
	return check(ret)
}

func (l *library) processes(d nvml.Device, s *telemetry.GPUSample, pids []int) ([]int, error) {
	if !l.has[fnProcesses] {
		return pids, nil
	}
	all, ret := d.GetComputeRunningProcesses()
	if ret == nvml.SUCCESS {
		s.Known |= telemetry.Processes
		s.Processes += len(all)
		for i := range all {
			pids = append(pids, int(all[i].Pid))
		}
	}
	return pids, check(ret)
}

// rest reads the fields of a whole GPU.
func (l *library) rest(d nvml.Device, s *telemetry.GPUSample) error {
	var failed error
	set := func(fn string, f telemetry.Field, dst *float64, read func() (float64, nvml.Return)) {
		if failed != nil || !l.has[fn] {
			return
		}
		v, ret := read()
		if ret == nvml.SUCCESS {
			*dst = v
			s.Known |= f
		}
		failed = check(ret)
	}
	set(fnUtilization, telemetry.Utilization, &s.Utilization, func() (float64, nvml.Return) {
		u, ret := d.GetUtilizationRates()
		return float64(u.Gpu), ret
	})
	set(fnPower, telemetry.Power, &s.Power, func() (float64, nvml.Return) {
		mw, ret := d.GetPowerUsage()
		return float64(mw) / 1e3, ret
	})
	set(fnEnergy, telemetry.Energy, &s.Energy, func() (float64, nvml.Return) {
		mj, ret := d.GetTotalEnergyConsumption()
		return float64(mj) / 1e3, ret
	})
	set(fnTemperature, telemetry.Temperature, &s.Temperature, func() (float64, nvml.Return) {
		c, ret := d.GetTemperature(nvml.TEMPERATURE_GPU)
		return float64(c), ret
	})
	set(fnClock, telemetry.SMClock, &s.SMClock, func() (float64, nvml.Return) {
		mhz, ret := d.GetClockInfo(nvml.CLOCK_SM)
		return float64(mhz), ret
	})
	set(fnAppClock, telemetry.ApplicationClock, &s.ApplicationClock, func() (float64, nvml.Return) {
		mhz, ret := d.GetApplicationsClock(nvml.CLOCK_GRAPHICS)
		return float64(mhz), ret
	})
	var bits float64 // a set of few bits, exact
	set(fnThrottle, telemetry.Throttle, &bits, func() (float64, nvml.Return) {
		b, ret := d.GetCurrentClocksThrottleReasons()
		return float64(b), ret
	})
	s.Throttle = uint64(bits)
	return failed
}

func indexOf(d nvml.Device) int {
	i, ret := d.GetIndex()
	if ret != nvml.SUCCESS {
		return -1
	}
	return i
}

// watch asks for the errors of a GPU once in a session.
func (l *library) watch(i int, d nvml.Device) {
	if l.events == nil || l.watched[i] {
		return
	}
	l.watched[i] = d.RegisterEvents(nvml.EventTypeXidCriticalError, l.events) == nvml.SUCCESS
}

// mostXids bounds how many errors one call takes: a failing GPU reports many.
const mostXids = 256

// Xids implements Driver.
func (l *library) Xids(dst []XidEvent) ([]XidEvent, error) {
	if l.session == 0 {
		return dst, ErrSession
	}
	if l.events == nil {
		return dst, nil
	}
	for range mostXids {
		e, ret := l.events.Wait(1) // ms
		if ret != nvml.SUCCESS {
			return dst, check(ret)
		}
		if e.EventType == nvml.EventTypeXidCriticalError {
			dst = append(dst, XidEvent{Index: indexOf(e.Device), Code: int(e.EventData)})
		}
	}
	return dst, nil
}
