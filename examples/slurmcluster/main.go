// Command slurmcluster runs an emulated cluster of a real Slurm until it is interrupted. It prints the path of
// slurm.conf once jobs can be submitted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("dir", "", "folder of the cluster, which every user must be able to enter")
	nodes := flag.Int("nodes", 16, "number of nodes of 8 GPUs")
	include := flag.String("include", "", "lines of the included file autosched.conf, separated by semicolons")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := slurmtest.Start(ctx, slurmtest.Options{Dir: *dir, Nodes: *nodes,
		Include: strings.ReplaceAll(*include, ";", "\n") + "\n",
		QOS:     map[string]int{"high": 100, "normal": 50, "low": 0},
		Accounts: []slurmtest.Account{{Name: "vc1", Share: 10, Users: []string{"games", "man"}},
			{Name: "vc2", Share: 20, Users: []string{"lp", "mail"}}}})
	if err != nil {
		return err
	}
	fmt.Println(c.Conf())
	<-ctx.Done()
	return c.Stop()
}
