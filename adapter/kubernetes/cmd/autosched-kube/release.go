package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/internal/cli"
)

// released is the result of release.
type released struct {
	Restored bool `json:"restored"`
}

func newReleaseCmd() *cobra.Command {
	var f clusterFlags
	var takeOver, asJSON bool
	var r released
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give the fields that the adapter set back",
		Long: `Gives the fields of the cluster's objects back that the adapter set: the values stay, or with --restore the ones
before its first change come back. It needs neither the service nor the adapter. An adapter that runs reports it and
applies nothing from then on.`,
		Example: `  autosched-kube release --scheduler kueue
  autosched-kube release --scheduler kueue --restore`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.check()
			if err != nil {
				return err
			}
			config, _, objects, err := f.open()
			if err != nil {
				return err
			}
			d, err := apply.Open(cmd.Context(), apply.Options{Client: objects, Config: config,
				Scheduler: appliers[s.Name](), TakeOver: takeOver})
			if err != nil {
				return err
			}
			if err := d.Release(cmd.Context(), r.Restored); err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), asJSON, "kube-release/v1", r, func(w io.Writer) error {
				text := "the fields are given back, and have their values"
				if r.Restored {
					text = "the fields are given back, with the values before the first change"
				}
				_, err := fmt.Fprintln(w, text)
				return err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&r.Restored, "restore", false, "put the values back that were there before the first change")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "give back fields that someone else changed since, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}
