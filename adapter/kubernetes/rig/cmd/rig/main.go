// Command rig builds and runs a Kubernetes control plane with Kueue or Volcano on this machine, and records workloads
// on it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const usage = `rig COMMAND [FLAGS]

  build   build what is missing into the user's cache
  up      run a control plane until a signal ends it
  drive   submit jobs to a control plane that runs, and write a row for each
  record  run a control plane, submit jobs, write a row for each, and end it
  sum     print the means of such rows, of the files together
  patch   change an object as kubectl patch KIND NAME --type=json -p PATCH does, of the cluster of KUBECONFIG

rig COMMAND --help lists the flags`

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var c command
	if args[0] == "sum" {
		return sum(args[1:])
	}
	if args[0] == "patch" {
		return patch(ctx, args[1:])
	}
	if args[0] == "build" {
		return errors.Join(fs.Parse(args[1:]), rig.Build(ctx, os.Stderr))
	}
	if args[0] != "drive" {
		fs.StringVar(&c.o.Dir, "dir", "", "folder of the control plane; a temporary one if empty")
		fs.IntVar(&c.o.Nodes, "nodes", 8, "nodes of 8 GPUs")
		fs.StringVar(&c.conf, "conf", "", "file of Volcano's configuration; its chart's if empty")
		fs.StringVar(&c.queues, "queues", "", "file of objects to create, the queues for one")
		fs.StringVar(&c.save, "save", "", "file for all objects at the end, as kubectl get -o json prints a list")
	} else {
		fs.StringVar(&c.kubeconfig, "kubeconfig", "", "how to reach the API server")
		fs.StringVar(&c.d.Prefix, "prefix", "", "what comes before the names of the jobs")
	}
	fs.StringVar(&c.scheduler, "scheduler", "kueue", "kueue or volcano")
	if args[0] != "up" {
		fs.StringVar(&c.jobs, "jobs", "", "file of the jobs: job, at_s, tenant, priority, pods, gpus, run_s")
		fs.StringVar(&c.out, "out", "", "file for a row of each job; standard output if empty")
		fs.DurationVar(&c.jitter, "jitter", 0, "how far submissions are moved at most")
		fs.Uint64Var(&c.seed, "seed", 1, "seed of the jitter")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	switch c.scheduler {
	case "kueue":
		c.o.Kueue, c.d.Kueue = true, true
	case "volcano":
		c.o.Volcano = true
	default:
		return fmt.Errorf("--scheduler %s: kueue or volcano", c.scheduler)
	}
	switch args[0] {
	case "up":
		return c.up(ctx, func(r *rig.Rig) error {
			fmt.Println(r.Kubeconfig("admin"))
			<-ctx.Done()
			return nil
		})
	case "drive":
		config, err := cluster.Config(c.kubeconfig, "")
		if err != nil {
			return err
		}
		config.QPS = -1
		if c.d.Client, err = cluster.Open(config); err != nil {
			return err
		}
		return c.drive(ctx)
	case "record":
		return c.up(ctx, func(r *rig.Rig) error {
			c.d.Client = r.Client("admin")
			return c.drive(ctx)
		})
	}
	return errors.New(usage)
}

type command struct {
	o                                                    rig.Options
	d                                                    rig.Driver
	conf, queues, save, kubeconfig, scheduler, jobs, out string
	jitter                                               time.Duration
	seed                                                 uint64
}

func (c command) up(ctx context.Context, f func(*rig.Rig) error) (err error) {
	if c.conf != "" {
		text, err := os.ReadFile(c.conf)
		if err != nil {
			return err
		}
		c.o.Conf = string(text)
	}
	r, err := rig.Open(ctx, c.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if c.queues != "" {
		text, err := os.ReadFile(c.queues)
		if err != nil {
			return err
		}
		if err := r.Create(ctx, text); err != nil {
			return err
		}
	}
	if err := f(r); err != nil || c.save == "" {
		return err
	}
	text, err := r.Export(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return write(c.save, text)
}

func (c command) drive(ctx context.Context) error {
	f, err := os.Open(c.jobs)
	if err != nil {
		return err
	}
	defer f.Close()
	jobs, err := rig.ReadJobs(f)
	if err != nil {
		return err
	}
	if c.jitter > 0 {
		jobs = rig.Jitter(jobs, c.jitter, c.seed)
	}
	rows, err := c.d.Run(ctx, jobs)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := rig.WriteRows(&text, rows); err != nil {
		return err
	}
	if c.out == "" {
		_, err = os.Stdout.Write(text.Bytes())
		return err
	}
	return write(c.out, text.Bytes())
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func sum(files []string) error {
	var rows []rig.Row
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		more, err := rig.ReadRows(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		rows = append(rows, more...)
	}
	fmt.Printf("%-14s %5s %8s %8s %8s %8s\n", "", "jobs", "wait s", "p95 s", "JCT s", "evicted")
	for _, c := range rig.Classes(rows) {
		fmt.Printf("%-14s %5d %8.2f %8.2f %8.2f %8d\n", c.Name, c.Jobs, c.Wait.Seconds(), c.P95.Seconds(),
			c.JCT.Seconds(), c.Evicted)
	}
	return nil
}

func patch(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("rig patch KIND NAME --type=json -p PATCH [--dry-run=server]")
	}
	fs := flag.NewFlagSet("patch", flag.ContinueOnError)
	var kind, text, dry string
	fs.StringVar(&kind, "type", "json", "type of the patch: json")
	fs.StringVar(&text, "p", "", "the patch")
	fs.StringVar(&dry, "dry-run", "none", "none, or server: the server checks and keeps nothing")
	if err := fs.Parse(args[2:]); err != nil {
		return err
	}
	if kind != "json" || dry != "none" && dry != "server" {
		return fmt.Errorf("--type=%s --dry-run=%s: json, and none or server", kind, dry)
	}
	config, err := cluster.Config("", "")
	if err != nil {
		return err
	}
	return rig.Patch(ctx, config, args[0], args[1], []byte(text), dry == "server")
}
