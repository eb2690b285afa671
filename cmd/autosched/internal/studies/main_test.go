package studies_test

import (
	"testing"

	"github.com/autosched/autosched/cmd/autosched/internal/root"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, root.New) }
