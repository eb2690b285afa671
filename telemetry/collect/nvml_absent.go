//go:build !nvml || !cgo

package collect

import "errors"

// NewDriver returns the driver of NVIDIA's GPUs, which this build lacks.
func NewDriver() (Driver, error) {
	return nil, errors.New("this binary has no access to GPUs: on Linux with gcc, build one that has with " +
		"CGO_ENABLED=1 go build -tags nvml ./cmd/autosched")
}
