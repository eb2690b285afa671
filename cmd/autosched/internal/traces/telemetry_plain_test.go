//go:build !nvml || !cgo

package traces

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// A binary without access to GPUs says how to build one that has.
func TestTelemetryCollectPlain(t *testing.T) {
	if code, _, errs := clitest.Run("telemetry", "collect"); code != 1 ||
		!strings.Contains(errs, "CGO_ENABLED=1 go build -tags nvml ./cmd/autosched") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
