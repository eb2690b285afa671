package serve_test

import (
	"github.com/autosched/autosched/cmd/autosched/internal/root"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func init() { clitest.NewRoot = root.New }
