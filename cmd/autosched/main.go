// Command autosched tunes the configuration of deep-learning-training schedulers
// to the workload expected next. `autosched help` lists its commands.
package main

import (
	_ "time/tzdata" // zones on machines without a database of them

	"github.com/autosched/autosched/cmd/autosched/internal/root"
	"github.com/autosched/autosched/internal/cli"
)

func main() { cli.Main(root.New) }
