// Package collect samples the GPUs of a node at a fixed period and sends the samples to a
// sink. It survives the faults of GPUs: a lost GPU, a reloaded driver, a call that
// does not return, and a sink that is away. The driver of NVIDIA's GPUs needs cgo and the
// build tag nvml; everything else is built without.
package collect

import (
	"errors"

	"github.com/autosched/autosched/telemetry"
)

// Errors of a Driver. A quantity that a GPU does not offer is no error: it stays unknown.
var (
	// ErrLost is for a GPU that fell off the bus or must be reset.
	ErrLost = errors.New("the GPU is lost")
	// ErrSession is for a session that the driver no longer knows, as after a reload.
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
