package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/site/kube"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

// initOptions are the flags of init.
type initOptions struct {
	cluster clusterFlags
	saved   string
	conf    string
	out     string
	id      string
	json    bool
}

func newInitCmd() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Describe a cluster from its objects",
		Long: `Reads the queues, nodes and jobs of a cluster under Kueue or Volcano, and writes into a folder

  cluster.json    the nodes and the queues with their quotas, cohorts and limits, for --cluster
  current.yaml    the settings in force, for --config
  scheduler.json  the registration, for 'autosched scheduler register': what is tuned
  queues.json     the objects of the queues and of the scheduler, from which changes are rendered
  history.json    the Workloads, or PodGroups and Pods, that the cluster keeps, for --trace

Then it names what is not simulated. It changes nothing of the cluster. Only settings that have an effect here are tuned:
those of borrowing where queues share a cohort, weights where the manager's fair sharing is known to be on.

With --saved it reads *.json files of a folder instead of the cluster, as these commands print them, for Kueue

  kubectl get clusterqueues,cohorts,localqueues,resourceflavors -A -o json >queues.json
  kubectl get nodes -o json >nodes.json
  kubectl get workloads -A -o json >workloads.json
  kubectl get configmap -n kueue-system kueue-manager-config -o json >manager.json

and for Volcano, where --conf names the scheduler's text if it is not in that ConfigMap:

  kubectl get queues.scheduling.volcano.sh -o json >queues.json
  kubectl get nodes,priorityclasses -o json >nodes.json
  kubectl get podgroups.scheduling.volcano.sh,pods -A -o json >podgroups.json
  kubectl get configmap -n volcano-system volcano-scheduler-configmap -o json >scheduler.json

--site of fidelity, tune, evaluate and compare takes the folder. See docs/kubernetes.md.`,
		Example: `  autosched-kube init --scheduler kueue --out site
  autosched-kube init --scheduler volcano --saved objects --out site`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "kube-init/v1", d,
				func(w io.Writer) error { return o.print(w, d) })
		},
	}
	o.cluster.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.saved, "saved", "", "folder with the objects in JSON (default: read them from the cluster)")
	fl.StringVar(&o.conf, "conf", "", "file with the text of Volcano's scheduler (default: its ConfigMap)")
	fl.StringVarP(&o.out, "out", "o", ".", "folder for the files")
	fl.StringVar(&o.id, "id", "kubernetes", "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *initOptions) run(ctx context.Context) (*kube.Description, error) {
	s, err := o.cluster.check()
	if err != nil {
		return nil, err
	}
	if o.conf != "" && s.Configuration == "" {
		return nil, cli.Usage(fmt.Errorf("--conf: %s has no such text", s.Name))
	}
	if err := errors.Join(cli.NeedsPath(o.out, "--out", "a folder"), cli.CheckID(o.id)); err != nil {
		return nil, err
	}
	read := o.live
	if o.saved != "" {
		read = o.files
	}
	files, notes, err := read(ctx, s)
	if err != nil {
		return nil, err
	}
	if o.conf != "" {
		text, err := os.ReadFile(o.conf)
		if err != nil {
			return nil, fmt.Errorf("--conf: %w", err)
		}
		if files["--conf"], err = kube.ConfigMap(text); err != nil {
			return nil, err
		}
	}
	d, err := kube.Find(s.Name).Describe(o.id, files)
	if err != nil {
		return nil, err
	}
	d.Notes = append(d.Notes, notes...)
	return d, d.Write(site.Folder(o.out), cli.Registration(s.Name))
}

// files reads the objects of a folder.
func (o *initOptions) files(context.Context, cluster.Scheduler) (map[string][]byte, []string, error) {
	paths, err := filepath.Glob(filepath.Join(o.saved, "*.json"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s has no files *.json: 'autosched-kube init --help' has the commands that print them",
			o.saved)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		text, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		files[path] = text
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--saved: %w", err)
	}
	return files, nil, nil
}

// live reads the objects of the cluster. Only queues and jobs must be readable.
func (o *initOptions) live(ctx context.Context, s cluster.Scheduler) (files map[string][]byte, notes []string,
	err error) {
	_, api, objects, err := o.cluster.open()
	if err != nil {
		return nil, nil, err
	}
	files = map[string][]byte{}
	needed := []schema.GroupResource{s.Queues, s.Jobs}
	more := []schema.GroupResource{cluster.Nodes}
	if s.Name == kube.Volcano.Name {
		needed = append(needed, s.Pods, cluster.Nodes)
		more = []schema.GroupResource{{Group: "scheduling.k8s.io", Resource: "priorityclasses"}}
	} else {
		needed = append(needed, s.LocalQueues)
		for _, name := range []string{"cohorts", "resourceflavors", "workloadpriorityclasses"} {
			more = append(more, schema.GroupResource{Group: s.Queues.Group, Resource: name})
		}
	}
	for _, r := range append(slices.Clone(needed), more...) {
		version, err := api.Version(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		all, err := objects.Resource(r.WithVersion(version)).List(ctx, metav1.ListOptions{})
		if err != nil && slices.Contains(needed, r) {
			return nil, nil, fmt.Errorf("%v: %w", r, err)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("%v are not known: %v", r, err))
			continue
		}
		if files[r.String()], err = json.Marshal(all); err != nil {
			return nil, nil, err
		}
	}
	if o.conf != "" {
		return files, notes, nil
	}
	name := cmp.Or(s.Configuration, "kueue-manager-config")
	of, err := objects.Resource(cluster.ConfigMaps.WithVersion("v1")).Namespace(s.Namespace).Get(ctx, name,
		metav1.GetOptions{})
	switch {
	case err != nil && s.Configuration != "":
		return nil, nil, fmt.Errorf("the scheduler's text, which --conf can name: %w", err)
	case err != nil:
		notes = append(notes, fmt.Sprintf("whether fair sharing is on is not known, and taken to be off: %v", err))
		return files, notes, nil
	}
	files[name], err = json.Marshal(of)
	return files, notes, err
}

func (o *initOptions) print(w io.Writer, d *kube.Description) error {
	fmt.Fprintf(w, "%s; %s of the past\n\nWritten:\n", d.Cluster, units.Plural(d.Jobs, "job"))
	for _, f := range d.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	for i, n := range d.Notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "note: %s\n", n)
	}
	_, err := fmt.Fprintf(w, "\nNothing of the cluster is changed. Next: autosched fidelity --trace %s --site %s\n",
		site.Folder(o.out).Path(kube.History), o.out)
	return err
}
