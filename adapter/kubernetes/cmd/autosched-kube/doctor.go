package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload/kube"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	cluster   clusterFlags
	namespace string
	json      bool
}

func newDoctorCmd() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what keeps a cluster from being tuned",
		Long: `Looks at a cluster before it is tuned, and changes nothing: the versions of the API server and of the scheduler's
resources, nodes with GPUs, queues, settings without effect here and why, changes by others of what the adapter
set, and the rights of the account, for observing and for each queue that may be configured. Run it as the account of the
adapter. It fails if a check does; rights to configure are warnings.`,
		Example: `  autosched-kube doctor --scheduler kueue
  autosched-kube doctor --scheduler volcano --kubeconfig admin.kubeconfig --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.cluster.check()
			if err != nil {
				return err
			}
			d, err := o.examine(cmd.Context(), s)
			if err != nil {
				return err
			}
			return errors.Join(cli.Show(cmd.OutOrStdout(), o.json, "diagnosis/v1", d, d.Print), d.Err())
		},
	}
	o.cluster.add(cmd)
	cmd.Flags().StringVar(&o.namespace, "lease-namespace", "autosched", "namespace of the adapter's lease")
	cmd.Flags().BoolVar(&o.json, "json", false, "")
	return cmd
}

// tried are the versions that the adapter is tested with.
var tried = map[string]string{"kueue": "v1beta2", "volcano": "v1beta1"}

const giveRights = "apply deploy/kubernetes/autosched-kube-%s.yaml, and run this as its account"

// examine looks at the cluster.
func (o *doctorOptions) examine(ctx context.Context, s cluster.Scheduler) (*checkup.Report, error) {
	config, api, objects, err := o.cluster.open()
	if err != nil {
		return nil, err
	}
	d := &checkup.Report{}
	version, err := api.Server(ctx)
	if err != nil {
		d.Fail("API server", "name the cluster with --kubeconfig and --context", "%v", err)
		return d, nil
	}
	d.OK("API server", "%s", version)
	served, err := api.Version(ctx, s.Queues)
	if err != nil {
		d.Fail(s.Name, "install "+s.Name+", or name the other scheduler with --scheduler", "%v", err)
		return d, nil
	}
	if served == tried[s.Name] {
		d.OK(s.Name, "%s is served as %s", s.Queues, served)
	} else {
		d.Warn(s.Name, "begin with --mode observe", "%s is served as %s: the adapter was tried with %s", s.Queues,
			served, tried[s.Name])
	}
	o.nodes(ctx, d, objects)
	queues := o.queues(ctx, d, objects, s, served)
	o.settings(ctx, d, apply.Options{Client: objects, Config: config, Scheduler: appliers[s.Name]()})
	o.rights(ctx, d, api, "observe", checkup.Fail, s.Reads(), "reader")
	if s.MayLackPods {
		o.rights(ctx, d, api, "starts", checkup.Warn, cluster.ReadsOf(s.Pods), "reader")
	}
	o.rights(ctx, d, api, "configure", checkup.Warn, s.Writes(queues), "tuner")
	o.rights(ctx, d, api, "lease", checkup.Fail, cluster.Holds(o.namespace), "reader")
	return d, nil
}

// nodes counts the GPUs.
func (o *doctorOptions) nodes(ctx context.Context, d *checkup.Report, objects dynamic.Interface) {
	list, err := objects.Resource(cluster.Nodes.WithVersion("v1")).List(ctx, metav1.ListOptions{})
	if err != nil {
		d.Fail("nodes", "let the account list nodes", "%v", err)
		return
	}
	nodes, gpus := 0, 0
	for i := range list.Items {
		if n := kube.ReadNode(kubejson.Of(list.Items[i].Object)).GPUs; n > 0 {
			nodes, gpus = nodes+1, gpus+n
		}
	}
	if nodes == 0 {
		d.Warn("nodes", "install the device plugin of the GPUs", "none of %s offers GPUs, as nvidia.com/gpu is",
			units.Plural(len(list.Items), "node"))
		return
	}
	d.OK("nodes", "%s with %s", units.Plural(nodes, "node"), units.Plural(gpus, "GPU"))
}

// queues lists the scheduler's queues.
func (o *doctorOptions) queues(ctx context.Context, d *checkup.Report, objects dynamic.Interface, s cluster.Scheduler,
	version string) (names []string) {
	list, err := objects.Resource(s.Queues.WithVersion(version)).List(ctx, metav1.ListOptions{})
	switch {
	case err != nil:
		d.Fail("queues", "let the account list "+s.Queues.String(), "%v", err)
	case len(list.Items) == 0:
		d.Fail("queues", "make queues: there is nothing to tune", "there are no %s", s.Queues)
	default:
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		d.OK("queues", "%s", strings.Join(names, ", "))
	}
	return names
}

// settings lists the ones without effect, and changes by others of the adapter's.
func (o *doctorOptions) settings(ctx context.Context, d *checkup.Report, options apply.Options) {
	found, err := apply.Inspect(ctx, options)
	if err != nil {
		d.Warn("settings", "let the account read the scheduler's objects", "which have an effect is not known: %v", err)
		return
	}
	for _, i := range found.Idle {
		d.Warn("no effect", "do not register it ('autosched-kube init' leaves it out)", "%v", i)
	}
	if len(found.Idle) == 0 {
		d.OK("settings", "all have an effect")
	}
	switch {
	case found.Foreign != "":
		d.Warn("drift", "put it back, or start the adapter once with --take-over", "changed by someone else: %s",
			found.Foreign)
	case found.Marked > 0:
		d.OK("drift", "all that the adapter set is as it set it")
	default:
		d.OK("drift", "the adapter has set nothing")
	}
}

// rights checks rights for a purpose; a manifest gives them.
func (o *doctorOptions) rights(ctx context.Context, d *checkup.Report, api *cluster.API, purpose string,
	otherwise checkup.Status, rights []cluster.Right, manifest string) {
	var lacking []string
	for _, r := range rights {
		allowed, err := api.Allowed(ctx, r)
		if err != nil {
			d.Warn(purpose, "let the account create selfsubjectaccessreviews", "its rights are not known: %v", err)
			return
		}
		if !allowed {
			lacking = append(lacking, r.String())
		}
	}
	if len(lacking) == 0 {
		d.OK(purpose, "the account has the rights")
		return
	}
	d.Add(otherwise, purpose, strings.ReplaceAll(giveRights, "%s", manifest), "the account may not %s",
		strings.Join(lacking, ", "))
}
