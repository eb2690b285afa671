// Command autosched-kube tunes Kueue or Volcano on a Kubernetes cluster: it sends the cluster's events to the service
// and puts configurations in force. `autosched-kube help` lists its commands.
package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/internal/cli"
)

func main() { cli.Main(newRoot) }

// newRoot returns the command autosched-kube with all its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "autosched-kube",
		Short: "Tune Kueue or Volcano on a Kubernetes cluster",
		Long: `Tunes Kueue or Volcano on a Kubernetes cluster: sends its events to the service ('autosched serve'), and puts
configurations in force. See docs/kubernetes.md. Exit codes: 0 success, 1 failure, 2 usage error.

  autosched-kube doctor --scheduler kueue
  autosched-kube run --scheduler kueue --id prod --server autosched:7443`,
		Version: cli.Built().Version,
	}
	root.SetVersionTemplate(cli.Built().Text())
	root.AddCommand(newInitCmd(), newRunCmd(), newReleaseCmd(), newDoctorCmd(), newVersionCmd())
	cli.Finish(root, map[string]cli.Completion{
		"init scheduler":    cli.OneOf(schedulerNames()...),
		"run mode":          cli.OneOf(modes...),
		"run scheduler":     cli.OneOf(schedulerNames()...),
		"run log-format":    cli.OneOf("text", "json"),
		"run log-level":     cli.OneOf(cli.LogLevels...),
		"release scheduler": cli.OneOf(schedulerNames()...),
		"doctor scheduler":  cli.OneOf(schedulerNames()...),
	})
	return root
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), cli.Built().Text())
			return err
		},
	}
}

// clusterFlags say which cluster is meant, and whose jobs.
type clusterFlags struct {
	kubeconfig, context string
	scheduler           string
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubectl's file of clusters (default: as kubectl's, in a pod its account)")
	fl.StringVar(&f.context, "context", "", "context of the file (default: its own)")
	fl.StringVar(&f.scheduler, "scheduler", "", "kueue or volcano (required)")
}

// open returns how the API server is reached, and its clients. It calls nothing.
func (f *clusterFlags) open() (config *rest.Config, api *cluster.API, objects dynamic.Interface, err error) {
	if config, err = cluster.Config(f.kubeconfig, f.context); err != nil {
		return nil, nil, nil, err
	}
	if api, err = cluster.NewAPI(config); err != nil {
		return nil, nil, nil, err
	}
	objects, err = cluster.Open(config)
	return config, api, objects, err
}

// check returns the scheduler.
func (f *clusterFlags) check() (cluster.Scheduler, error) {
	s, err := cluster.Find(f.scheduler)
	if err != nil {
		return s, cli.Usage(fmt.Errorf("--scheduler: %w", err))
	}
	return s, nil
}

func schedulerNames() (out []string) {
	for _, s := range cluster.Schedulers {
		out = append(out, s.Name)
	}
	return out
}
