//go:build nvml && cgo

package collect

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/autosched/autosched/telemetry"
)

// machine is the library's mock of eight GPUs with all that is read stubbed. A call that
// is made without a session, or of a function that the library lacks, fails the test.
type machine struct {
	*dgxa100.Server
	t        *testing.T
	sessions int
	begun    bool
	lacks    map[string]bool
	ret      [8]nvml.Return // of every reading of a GPU
	events   []nvml.EventData
	counters int // readings of performance counters that there is room for
}

func newMachine(t *testing.T) *machine {
	m := &machine{Server: dgxa100.New(), t: t, lacks: map[string]bool{}}
	m.InitFunc = func() nvml.Return { m.sessions++; m.begun = true; return nvml.SUCCESS }
	m.ShutdownFunc = func() nvml.Return { m.called(""); m.begun = false; return nvml.SUCCESS }
	m.LookupSymbolFunc = func(name string) error {
		if m.lacks[name] {
			return errors.New("undefined symbol")
		}
		return nil
	}
	count, handle := m.DeviceGetCountFunc, m.DeviceGetHandleByIndexFunc
	m.DeviceGetCountFunc = func() (int, nvml.Return) { m.called(""); return count() }
	m.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		m.called("")
		if m.ret[i] != nvml.SUCCESS {
			return nil, m.ret[i]
		}
		return handle(i)
	}
	m.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		m.called(fnEventSet)
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { m.called(""); return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				if m.called(fnWait); len(m.events) == 0 {
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
				e := m.events[0]
				m.events = m.events[1:]
				return e, nvml.SUCCESS
			}}, nvml.SUCCESS
	}
	m.GpmSampleAllocFunc = func() (nvml.GpmSample, nvml.Return) {
		m.called(fnGPMAlloc)
		m.counters++
		return &counter{}, nvml.SUCCESS
	}
	m.GpmSampleFreeFunc = func(nvml.GpmSample) nvml.Return {
		m.called(fnGPMFree)
		m.counters--
		return nvml.SUCCESS
	}
	m.GpmMetricsGetFunc = func(g *nvml.GpmMetricsGetType) nvml.Return {
		m.called(fnGPMMetrics)
		if a, b := g.Sample1.(*counter), g.Sample2.(*counter); a == b || a.reads == 0 || b.reads == 0 {
			t.Error("metrics of readings that were not made")
		}
		for i := range g.NumMetrics {
			g.Metrics[i].Value = 10 * float64(g.Metrics[i].MetricId)
		}
		g.Metrics[2].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
		return nvml.SUCCESS
	}
	for i := range m.Devices {
		m.stub(i, m.gpu(i))
	}
	return m
}

// counter is a reading of performance counters.
type counter struct {
	nvml.GpmSample
	reads int
}

func (m *machine) gpu(i int) *dgxa100.Device { return m.Devices[i].(*dgxa100.Device) }

func (m *machine) called(fn string) {
	if !m.begun {
		m.t.Errorf("%q without a session", fn)
	}
	if m.lacks[fn] {
		m.t.Errorf("%s, which the library lacks", fn)
	}
}

// stub gives GPU i readings that name it.
func (m *machine) stub(i int, d *dgxa100.Device) {
	ret := func(fn string) nvml.Return { m.called(fn); return m.ret[i] }
	n := uint32(i)
	index, uuid := d.GetIndexFunc, d.GetUUIDFunc
	d.GetIndexFunc = func() (int, nvml.Return) { m.called(fnIndex); return index() }
	d.GetUUIDFunc = func() (string, nvml.Return) { m.called(fnUUID); return uuid() }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 90 + n, Memory: 5}, ret(fnUtilization)
	}
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 40 << 30, Used: uint64(n) << 30, Reserved: 1 << 29}, ret(fnMemory2)
	}
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 40 << 30, Used: uint64(n)<<30 + 1<<29}, ret(fnMemory)
	}
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 300_000 + n, ret(fnPower) }
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 5_000_500, ret(fnEnergy) }
	d.GetTemperatureFunc = func(s nvml.TemperatureSensors) (uint32, nvml.Return) {
		return 50 + n + uint32(s), ret(fnTemperature)
	}
	d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) { return 1400 + uint32(c), ret(fnClock) }
	d.GetApplicationsClockFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
		return 1500 + uint32(c), ret(fnAppClock)
	}
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
		return telemetry.ThrottleSoftwarePower | telemetry.ThrottleHardwareThermal, ret(fnThrottle)
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 100 + n}, {Pid: 200 + n}}, ret(fnProcesses)
	}
	d.GpmQueryDeviceSupportFunc = func() (nvml.GpmSupport, nvml.Return) {
		return nvml.GpmSupport{IsSupportedDevice: 1 - n%2}, ret(fnGPMSupport)
	}
	d.GpmSampleGetFunc = func(s nvml.GpmSample) nvml.Return {
		s.(*counter).reads++
		return ret(fnGPMGet)
	}
	d.GpmMigSampleGetFunc = func(_ int, s nvml.GpmSample) nvml.Return {
		s.(*counter).reads++
		return ret(fnGPMMig)
	}
	d.RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
		if types != nvml.EventTypeXidCriticalError {
			m.t.Errorf("registered for %#x", types)
		}
		return ret(fnRegister)
	}
}

// partition divides GPU i into two instances, of which the second has two compute
// instances.
func (m *machine) partition(i int) {
	d := m.gpu(i)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		return nvml.Utilization{Gpu: 77}, nvml.ERROR_NOT_SUPPORTED
	}
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	part := func(id int, pid uint32) nvml.Device {
		return &mock.Device{
			GetGpuInstanceIdFunc: func() (int, nvml.Return) { return id, nvml.SUCCESS },
			GetUUIDFunc: func() (string, nvml.Return) {
				return fmt.Sprintf("MIG-%d-%d", id, pid), nvml.SUCCESS
			},
			GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
				return nvml.Memory_v2{Total: 5 << 30, Used: 1 << 30}, nvml.SUCCESS
			},
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: pid}}, nvml.SUCCESS
			}}
	}
	parts := map[int]nvml.Device{0: part(7, 1), 2: part(9, 2), 3: part(9, 3)}
	d.GetMigDeviceHandleByIndexFunc = func(k int) (nvml.Device, nvml.Return) {
		if p := parts[k]; p != nil {
			return p, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
}

func TestNVML(t *testing.T) {
	m := newMachine(t)
	var pids []int
	c := New(newNVML(m), Options{Node: "n", Job: func(p []int) string { pids = append(pids, p...); return "j" }})
	all := c.Round(t.Context(), at)
	if len(all) != 8 || m.sessions != 1 {
		t.Fatal(len(all), m.sessions)
	}
	want := telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: 3, Instance: -1}, UUID: m.gpu(3).UUID, Time: at,
		Utilization: 93, MemoryUsed: 3 << 10, MemoryTotal: 40 << 10, Power: 300.003, Energy: 5000.5, Temperature: 53,
		SMClock: 1401, ApplicationClock: 1500, Throttle: 0x44, Processes: 2, Job: "j",
		Known: telemetry.Utilization | telemetry.MemoryUsed | telemetry.MemoryTotal | telemetry.Power |
			telemetry.Energy | telemetry.Temperature | telemetry.SMClock | telemetry.ApplicationClock |
			telemetry.Throttle | telemetry.Xid | telemetry.Processes}
	if got := all[3]; got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(pids) != 16 || pids[7] != 203 {
		t.Error(pids)
	}
	m.events = []nvml.EventData{{Device: m.Devices[5], EventType: nvml.EventTypeXidCriticalError, EventData: 79},
		{Device: m.Devices[2], EventType: nvml.EventTypeXidCriticalError, EventData: 31},
		{Device: m.Devices[1], EventType: nvml.EventTypeClock, EventData: 1}}
	all = c.Round(t.Context(), at)
	if got := all[4]; got.SMActive != .2 || got.SMOccupancy != .3 || got.DRAMActive != 1 ||
		!got.Has(telemetry.SMActive|telemetry.SMOccupancy|telemetry.DRAMActive) || got.Has(telemetry.TensorActive) ||
		all[3].Has(telemetry.SMActive) {
		t.Errorf("counters: %+v, %+v", got, all[3])
	}
	if !all[5].Lost || all[5].Xid != 79 || all[2].Xid != 31 || all[2].Lost || all[1].Xid != 0 {
		t.Errorf("%+v", all)
	}
	c.Close(t.Context())
	if m.begun || m.counters != 0 {
		t.Error("the session is not over, or counters are left:", m.counters)
	}
}

func TestNVMLInstances(t *testing.T) {
	m := newMachine(t)
	m.partition(1)
	c := New(newNVML(m), Options{Node: "n"})
	all := c.Round(t.Context(), at)
	if len(all) != 10 {
		t.Fatal(len(all))
	}
	whole, a, b := all[1], all[2], all[3]
	if whole.Instance != -1 || whole.Has(telemetry.Utilization) || whole.Utilization != 0 ||
		!whole.Has(telemetry.Power) {
		t.Errorf("%+v", whole)
	}
	if a.Instance != 7 || a.Index != 1 || a.UUID != "MIG-7-1" || a.Processes != 1 || a.MemoryTotal != 5<<10 ||
		a.Known != telemetry.MemoryUsed|telemetry.MemoryTotal|telemetry.Processes {
		t.Errorf("%+v", a)
	}
	if b.Instance != 9 || b.Processes != 2 {
		t.Errorf("%+v", b)
	}
}

// A lost GPU, a driver that is reloaded and one that comes back.
func TestNVMLFaults(t *testing.T) {
	m := newMachine(t)
	var n notes
	c := New(newNVML(m), Options{Node: "n", Notify: n.add})
	lost := func() string {
		var b strings.Builder
		for _, s := range c.Round(t.Context(), at) {
			if s.Lost {
				fmt.Fprint(&b, s.Index)
			}
		}
		return b.String()
	}
	first := c.Round(t.Context(), at)[4].UUID
	m.ret[4] = nvml.ERROR_GPU_IS_LOST
	for range 2 * listEvery {
		if got := lost(); got != "4" {
			t.Fatalf("lost: %s", got)
		}
	}
	if s := c.Round(t.Context(), at)[4]; s.UUID != first || s.Known != 0 {
		t.Errorf("%+v", s)
	}
	if m.sessions < 2 {
		t.Error("no other session looked for the lost GPU")
	}
	for i := range m.ret {
		m.ret[i] = nvml.ERROR_UNINITIALIZED
	}
	begin := m.InitFunc
	m.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	for range 3 {
		if got := lost(); got != "01234567" {
			t.Errorf("lost: %s", got)
		}
	}
	m.InitFunc, m.ret = begin, [8]nvml.Return{}
	if got := lost(); got != "" {
		t.Errorf("lost: %s", got)
	}
	if got := strings.Join(n.all, "; "); !strings.Contains(got, "n:4: the GPU is lost") ||
		!strings.Contains(got, "the driver of the GPUs is not loaded") ||
		!strings.HasSuffix(got, "all 8 GPUs and instances answer") {
		t.Error(got)
	}
}

// A library of an older driver lacks functions: their values are unknown.
func TestNVMLOldLibrary(t *testing.T) {
	for _, fn := range functions {
		m := newMachine(t)
		m.lacks[fn] = true
		if fn == fnProcesses || fn == fnWait { // any version will do
			m.lacks[fn+"_v2"], m.lacks[fn+"_v3"] = true, true
		}
		c := New(newNVML(m), Options{Node: "n"})
		all := c.Round(t.Context(), at)
		if len(all) != 8 || all[0].Lost || math.Abs(all[2].Power-300.002) > 1e-9 && fn != fnPower {
			t.Errorf("without %s: %+v", fn, all)
		}
		if known := all[0].Known; fn == fnThrottle && known&telemetry.Throttle != 0 ||
			fn == fnMemory2 && all[0].MemoryUsed != 512 || fn == fnWait && known&telemetry.Xid != 0 {
			t.Errorf("without %s: %v", fn, known)
		}
	}
}

// A call without a session is refused, whatever came before.
func TestNVMLGate(t *testing.T) {
	m := newMachine(t)
	l := newNVML(m)
	if _, err := l.Devices(); !errors.Is(err, ErrSession) {
		t.Error(err)
	}
	if _, err := l.Xids(nil); !errors.Is(err, ErrSession) {
		t.Error(err)
	}
	l.Shutdown()
	m.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if err := l.Init(); err == nil || !strings.Contains(err.Error(), "libnvidia-ml.so.1 is not found") {
		t.Error(err)
	}
	if _, err := l.Devices(); !errors.Is(err, ErrSession) {
		t.Error(err)
	}
	m.InitFunc = func() nvml.Return { m.begun = true; return nvml.SUCCESS }
	if err := l.Init(); err != nil {
		t.Fatal(err)
	}
	devices, err := l.Devices()
	if err != nil {
		t.Fatal(err)
	}
	l.Shutdown()
	for range 2 { // and in another session
		if _, err := devices[0].Read(&telemetry.GPUSample{}, nil); !errors.Is(err, ErrSession) {
			t.Error(err)
		}
		if err := l.Init(); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a driver on this machine the real library says so and nothing ends the process.
func TestNVMLAbsent(t *testing.T) {
	d, err := NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Init(); err == nil {
		d.Shutdown()
		t.Skip("there is a driver")
	}
	c := New(d, Options{Node: "n"})
	if got := c.Round(t.Context(), at); len(got) != 0 {
		t.Error(got)
	}
	c.Close(t.Context())
}

// A round of the mock's eight GPUs: the collector's part and the binding's, not the driver's.
func BenchmarkNVMLRound(b *testing.B) {
	m := newMachine(&testing.T{})
	c := New(newNVML(m), Options{Node: "n"})
	b.ReportAllocs()
	for b.Loop() {
		c.Round(b.Context(), at)
	}
}
