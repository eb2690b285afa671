// Package collect samples the GPUs of a node at a fixed period and sends the samples to a
// sink. It survives the faults of GPUs: a lost GPU, a reloaded driver, a call that
// does not return, and a sink that is away. The driver of NVIDIA's GPUs needs cgo and the
// build tag nvml; everything else is built without.
package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Defaults of Options. A reading takes milliseconds; one of seconds hangs.
const (
	DefaultPeriod   = 15 * time.Second
	DefaultDeadline = 2 * time.Second
	// listEvery is after how many rounds the devices are listed again: instances come and
	// go, and lost GPUs come back.
	listEvery = 20
	// fellOff is the Xid error of a GPU that fell off the bus.
	fellOff = 79
)

// Options of a Collector.
type Options struct {
	Node string // its name in the samples
	// Deadline is how long a call of the driver may take. Default: DefaultDeadline.
	Deadline time.Duration
	// Job finds the job of processes, empty if there is none or several; it may be nil.
	Job func(pids []int) string
	// Notify reports changes for the worse or the better; it may be nil.
	Notify func(text string)
}

// Collector samples the GPUs of a node. It is used by one goroutine.
type Collector struct {
	driver  Driver
	opts    Options
	session bool
	stale   bool // the driver's session has to be ended before another begins
	devices []*device
	rounds  int
	timer   *time.Timer
	hung    []*call // that did not return in time
	xidCall *call
	xids    []XidEvent
	out     []telemetry.GPUSample
	trouble string // as reported last
}

// device is a round's view of a Device. While a call on it has not returned, sample
// and pids belong to that call.
type device struct {
	Device
	pending *call
	lost    bool
	sample  telemetry.GPUSample
	pids    []int
	err     error
}

// call is a call of the driver on a goroutine of its own.
type call struct{ done chan struct{} }

func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// New makes a collector that has called nothing yet.
func New(driver Driver, opts Options) *Collector {
	if opts.Deadline <= 0 {
		opts.Deadline = DefaultDeadline
	}
	timer := time.NewTimer(opts.Deadline)
	timer.Stop()
	return &Collector{driver: driver, opts: opts, timer: timer}
}

// errHung is for a call that did not return within the deadline.
var errHung = errors.New("a call of the driver does not return")

// within runs a call of the driver and waits for it until the deadline. A call that takes
// longer cannot be ended: it goes on, and is looked for in later rounds.
func (c *Collector) within(ctx context.Context, run func()) (*call, error) {
	k := &call{done: make(chan struct{})}
	go func() {
		run()
		close(k.done)
	}()
	c.timer.Reset(c.opts.Deadline)
	defer c.timer.Stop()
	select {
	case <-k.done:
		return k, nil
	case <-c.timer.C:
	case <-ctx.Done():
	}
	c.hung = append(c.hung, k)
	return k, errHung
}

// settle forgets the calls that have returned since.
func (c *Collector) settle() {
	left := c.hung[:0]
	for _, k := range c.hung {
		if !k.returned() {
			left = append(left, k)
		}
	}
	c.hung = left
}

// Round samples every device once. The samples are valid until the next round. There is
// one for each device known, marked as lost where it did not answer. It takes at most the
// deadline for each device that hangs, and does not wait for it again until it returned.
func (c *Collector) Round(ctx context.Context, at time.Duration) []telemetry.GPUSample {
	c.settle()
	trouble := c.prepare(ctx)
	c.rounds++
	c.out = c.out[:0]
	for _, d := range c.devices {
		s := telemetry.GPUSample{UUID: d.UUID, Time: at,
			GPU: telemetry.GPU{Node: c.opts.Node, Index: d.Index, Instance: d.Instance}}
		err := c.read(ctx, d)
		if d.lost = err != nil; d.lost {
			s.Lost = true
			if trouble == "" {
				trouble = fmt.Sprintf("%v: %v", s.GPU, err)
			}
		} else {
			read := d.sample
			read.GPU, read.UUID, read.Time = s.GPU, s.UUID, s.Time
			s = read
			s.Forget(s.Impossible())
			if c.opts.Job != nil && len(d.pids) > 0 {
				s.Job = c.opts.Job(d.pids)
			}
		}
		c.out = append(c.out, s)
	}
	c.addXids(ctx)
	c.report(trouble)
	return c.out
}

// prepare makes sure that there is a session with a recent list of devices, unless a call
// hangs: then neither may change. It returns the obstacle.
func (c *Collector) prepare(ctx context.Context) (trouble string) {
	if len(c.hung) > 0 {
		return errHung.Error()
	}
	if c.session && c.rounds%listEvery == 0 && c.anyLost() { // it may need another session to come back
		c.session, c.stale = false, true
	}
	list := c.session && c.rounds%listEvery == 0
	if !c.session {
		var err error
		stale := c.stale
		_, hung := c.within(ctx, func() {
			if stale {
				c.driver.Shutdown()
			}
			err = c.driver.Init()
		})
		if hung != nil {
			c.stale = true
			return hung.Error()
		}
		if c.stale = false; err != nil {
			return err.Error()
		}
		c.session, list = true, true
	}
	if !list {
		return ""
	}
	var all []Device
	var err error
	if _, hung := c.within(ctx, func() { all, err = c.driver.Devices() }); hung != nil {
		return hung.Error()
	}
	if err != nil {
		c.session, c.stale = false, true
		return err.Error()
	}
	devices := make([]*device, len(all))
	for i := range all {
		devices[i] = &device{Device: all[i]}
		if all[i].UUID == "" { // a lost GPU keeps its name
			for _, old := range c.devices {
				if old.Index == all[i].Index && old.Instance == all[i].Instance {
					devices[i].UUID = old.UUID
				}
			}
		}
	}
	c.devices = devices
	return ""
}

func (c *Collector) anyLost() bool {
	for _, d := range c.devices {
		if d.lost {
			return true
		}
	}
	return false
}

// read reads a device into its sample, unless it cannot be read.
func (c *Collector) read(ctx context.Context, d *device) error {
	if d.pending != nil {
		if !d.pending.returned() {
			return errHung
		}
		d.pending = nil
	}
	if !c.session {
		return ErrSession
	}
	d.sample = telemetry.GPUSample{}
	k, err := c.within(ctx, func() { d.pids, d.err = d.Read(&d.sample, d.pids[:0]) })
	if err != nil {
		d.pending = k
		return err
	}
	if errors.Is(d.err, ErrSession) {
		c.session, c.stale = false, true
	}
	return d.err
}

// addXids puts the errors reported since the round before into the samples of their GPUs.
func (c *Collector) addXids(ctx context.Context) {
	known := false
	if c.session && (c.xidCall == nil || c.xidCall.returned()) {
		var err error
		c.xidCall, known = nil, true
		if k, hung := c.within(ctx, func() { c.xids, err = c.driver.Xids(c.xids[:0]) }); hung != nil {
			c.xidCall, known = k, false
		} else if errors.Is(err, ErrSession) {
			c.session, c.stale, known = false, true, false
		}
	}
	for i := range c.out {
		s := &c.out[i]
		if !known {
			s.Forget(telemetry.Xid)
			continue
		}
		for _, x := range c.xids {
			if x.Index != s.Index || s.Instance >= 0 {
				continue
			}
			if x.Code == fellOff && !s.Lost {
				*s = telemetry.GPUSample{GPU: s.GPU, UUID: s.UUID, Time: s.Time, Lost: true}
			}
			s.Xid = x.Code
			s.Known |= telemetry.Xid
		}
	}
}

// report reports changes.
func (c *Collector) report(trouble string) {
	if trouble == c.trouble || c.opts.Notify == nil {
		return
	}
	if c.trouble = trouble; trouble == "" {
		trouble = fmt.Sprintf("all %d GPUs and instances answer", len(c.devices))
	}
	c.opts.Notify(trouble)
}

// Close ends the session, unless a call hangs.
func (c *Collector) Close(ctx context.Context) {
	c.settle()
	if len(c.hung) == 0 && (c.session || c.stale) {
		c.within(ctx, c.driver.Shutdown) //nolint:errcheck // nothing can be done about it
	}
	c.session, c.stale = false, false
}

// Errors of a Driver. A quantity that a GPU does not offer is no error: it stays unknown.
var (
	// ErrLost is for a GPU that fell off the bus or must be reset.
	ErrLost = errors.New("the GPU is lost")
	// ErrSession is for a session that the driver has forgotten, as after a reload.
	ErrSession = errors.New("the session with the driver is over")
)

// Driver is the access to the GPUs of a node. One goroutine at a time calls it, but for
// calls that hang: while one has not returned, only Read and Xids are called.
type Driver interface {
	// Init begins a session. Nothing else may be called unless it succeeded.
	Init() error
	// Shutdown ends the session and all that belongs to it.
	Shutdown()
	// Devices lists the GPUs of the session and, after each, its MIG instances.
	Devices() ([]Device, error)
	// Xids appends the errors reported since the call before.
	Xids(dst []XidEvent) ([]XidEvent, error)
}

// Device is a GPU or a MIG instance of a session.
type Device struct {
	Index    int
	Instance int // id of the MIG instance, -1 for the whole GPU
	UUID     string
	// Read sets the quantities of a sample that can be read, and appends the processes
	// that have a context on the device. Xid is known if Xids reports the device's errors.
	Read func(s *telemetry.GPUSample, pids []int) ([]int, error)
}

// XidEvent is an error that a GPU reported.
type XidEvent struct {
	Index int
	Code  int
}
