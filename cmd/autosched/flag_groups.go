package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the headings under which --help lists flags, in this order.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Workload", []string{"trace", "windows", "columns", "timezone", "shards-per-gpu", "requeue-restarts", "from", "to", "at", "warmup", "skip-wider", "scenario", "vc", "data", "seed"}},
	{"Cluster", []string{"nodes", "gpus-per-node", "node-events", "runs", "placement", "interconnect", "models", "quota", "move-quota", "group"}},
	{"Scheduler", []string{"scheduler", "schedulers", "presets", "row", "preset", "config", "set", "set-at", "recorded-scheduler", "ignore-fidelity", "round", "estimates", "max-preemptions",
		"min-run"}},
	{"Goal", []string{"objective", "subject-to", "keep", "pareto", "min-ratio", "min-gain", "change-price", "dwell", "guard",
		"always"}},
	{"Search", []string{"methods", "search", "searches", "sampler", "budget", "fixed-budget", "time", "interval", "generate",
		"horizon", "futures", "truth",
		"workers", "jobs", "resume", "hours", "seeds", "configs", "segment", "stride", "sizes", "repeats", "train", "boosted"}},
	{"Service", []string{"server", "timeout", "id", "mode", "speedup"}},
	{"Output", []string{"models-out", "node-events-out", "json", "out", "top", "plot", "trials", "jobs-out", "series", "series-by-tenant",
		"series-interval", "timeline", "tiers", "help"}},
}

// groupFlags makes --help list the flags of commands that replay a trace on a
// cluster by group: they have thirty.
func groupFlags(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	const all = "\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	template := root.UsageTemplate()
	if !strings.Contains(template, all) {
		panic("autosched: cobra's usage template lists flags in another way")
	}
	root.SetUsageTemplate(strings.Replace(template, all, "{{flagUsages .LocalFlags}}", 1))
}

// flagUsages lists flags under their headings. What is in no group comes last.
func flagUsages(flags *pflag.FlagSet) string {
	left := pflag.NewFlagSet("", pflag.ContinueOnError)
	groups := make([]*pflag.FlagSet, len(flagGroups))
	if flags.Lookup("scheduler") == nil || flags.Lookup("placement") == nil {
		return section("Flags", flags)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		for i, g := range flagGroups {
			// A tiers file is an output where its table is one, and an input beside --data.
			input := f.Name == "tiers" && flags.Lookup("data") != nil
			if input && g.title == "Workload" || !input && slices.Contains(g.flags, f.Name) {
				if groups[i] == nil {
					groups[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
				}
				groups[i].AddFlag(f)
				return
			}
		}
		left.AddFlag(f)
	})
	var out strings.Builder
	for i, g := range groups {
		if g != nil {
			out.WriteString(section(flagGroups[i].title+" flags", g))
		}
	}
	return out.String() + section("Other flags", left)
}

func section(title string, flags *pflag.FlagSet) string {
	if !flags.HasAvailableFlags() {
		return ""
	}
	return fmt.Sprintf("\n\n%s:\n%s", title, strings.TrimRight(flags.FlagUsages(), "\n "))
}
