package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// Completion offers values of a flag to a shell.
type Completion = cobra.CompletionFunc

// OneOf offers names.
func OneOf(names ...string) Completion {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// ListOf offers names for a comma-separated list, each once.
func ListOf(names ...string) Completion {
	return func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		before := text[:strings.LastIndexByte(text, ',')+1]
		var out []string
		for _, n := range names {
			if !slices.Contains(SplitList(before), n) {
				out = append(out, before+n)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// traces offers the built-in traces, and files.
func traces(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, b := range trace.BuiltIns() {
		if text != "" && strings.HasPrefix(b.Name, text) {
			out = append(out, b.Name+"\tbuilt in, synthetic: "+b.About)
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

// chosen is the scheduler that --scheduler names, nil without one.
func chosen(cmd *cobra.Command) *schedulers.Scheduler {
	f := cmd.Flag("scheduler")
	if f == nil {
		return nil
	}
	s, err := schedulers.Find(f.Value.String())
	if err != nil {
		return nil
	}
	return s
}

func presets(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if s := chosen(cmd); s != nil {
		for _, p := range s.Presets {
			out = append(out, p.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// settings offers the parameters of the scheduler, and the values of categorical
// ones.
func settings(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	s := chosen(cmd)
	if s == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	id, _, valued := strings.Cut(text, "=")
	var out []string
	for _, p := range s.Space.Params() {
		switch {
		case !valued:
			out = append(out, p.ID+"=\t"+p.Description)
		case p.ID == id:
			values := p.Categories
			if p.Kind == space.KindBool {
				values = []string{"true", "false"}
			}
			for _, v := range values {
				out = append(out, id+"="+v)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// goals offers the simulator's objectives, unless the flag names columns of a
// table.
func goals(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if cmd.Flag("data") != nil && cmd.Flag("scheduler") == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return round.Objectives, cobra.ShellCompDirectiveNoFileComp
}

// CompleteSchedulers offers the schedulers of the service, if it answers within a second.
func CompleteSchedulers(f *ClientFlags) Completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var out []string
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		soon := *f
		soon.Timeout = time.Second
		_ = soon.Call(cmd.Context(), false, func(ctx context.Context, c *Client) error {
			got, err := c.Tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{PageSize: 1000})
			for _, s := range got.GetSchedulers() {
				out = append(out, ShortName(s.GetName()))
			}
			return err
		})
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// values completes flags of all programs by name. A command whose flag means something else
// registers its own.
func values() map[string]Completion {
	var formats []string
	for _, f := range trace.Formats {
		formats = append(formats, f.Name)
	}
	return map[string]Completion{
		"trace":        traces,
		"scheduler":    OneOf(schedulers.Names()...),
		"builtin":      OneOf(schedulers.Names()...),
		"preset":       presets,
		"set":          settings,
		"objective":    goals,
		"interconnect": OneOf(simulator.DefaultModelSpec().Classes.Interconnects()...),
		"format":       OneOf(formats...),
		"profile":      OneOf(synth.Profiles()...),
		"mode":         OneOf("recommend", "auto"),
		"state":        OneOf("applied", "rejected", "failed"),
		"shift":        OneOf("weeks"),
		"vc":           OneOf("auto"),
	}
}

// completeValues registers the completion of all flags with known values. A key of known is a command,
// or one of its parents, and a flag.
func completeValues(root *cobra.Command, known map[string]Completion) {
	common := values()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
				return
			}
			by := common[f.Name]
			for at := cmd; at.HasParent(); at = at.Parent() {
				if own, ok := known[CommandName(at)+" "+f.Name]; ok {
					by = own
					break
				}
			}
			switch {
			case by != nil:
				_ = cmd.RegisterFlagCompletionFunc(f.Name, by)
			case f.Value.Type() == "bool", f.Value.Type() == "string":
			default: // numbers and durations are no files
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
