package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// meanings are the usage texts of flags that several commands have.
var meanings = map[string]string{
	"all": "every registered scheduler",
	"allow-anonymous": "go on without --roles of the service on addresses other than loopback: every caller may do " +
		"anything",
	"at": "instant up to which the history is known, RFC 3339, a date, seconds since the trace's zero, or a " +
		"span since it such as 36h",
	"budget":         "evaluations per round; one is a configuration on all futures",
	"check-settings": "check the settings and the files that they name, and do not start",
	"cluster": "JSON file of nodes, virtual clusters and the scheduler's site, as 'autosched slurm init' writes it, " +
		"instead of --nodes and --gpus-per-node",
	"data":    "CSV of measured configurations, a row each, - for standard input (required)",
	"dir":     "directory of the service's data",
	"dry-run": "check and print, and change nothing",
	"etag":    "change nothing if another change came since: the etag that get --json shows",
	"filter":  "only those that match, such as 'state = ACTIVE' (docs/service.md)",
	"format":  "format of the files (default: by their content)",
	"from": "begin of the window, RFC 3339, of a trace also a date, seconds since its zero, or a span since it " +
		"such as 36h (default: that of the data)",
	"futures":       "futures to draw; each candidate is simulated on all of them",
	"gpus-per-node": "GPUs of each node",
	"group": "column that says which rows belong together, such as one day's runs: the bootstrap draws them " +
		"together, and errors are those for a new group",
	"id": "id of the scheduler in the service",
	"include": "file of the tuned settings, which slurm.conf includes last (default: autosched/autosched.conf " +
		"beside slurm.conf)",
	"instance": "instance of the scheduler, where there are several",
	"interval": "time between tuning rounds, on the clock of the events",
	"job":      "id of a job",
	"jobs-out": "write a row for each job to this CSV file (.gz: compressed)",
	"json":     "print JSON for programs",
	"label":    "KEY=VALUE to select by; repeat for more",
	"limit":    "most rows to show",
	"listen":   "address to listen on, host:port",
	"metric":   "id of a metric of the scheduler",
	"mode": "what is done with better configurations: recommend (proposed to an operator) or auto (offered), or of " +
		"slurm run also observe (nothing)",
	"model":           "model file that 'autosched forecast durations train' wrote (default: one is learnt)",
	"node":            "node of the samples",
	"node-events-out": "write when nodes were out to this file, for --node-events",
	"nodes":           "nodes of the cluster; of a history as it shows, unless given",
	"order-by":        "fields to sort by, such as 'create_time desc'",
	"parallel":        "how many are computed, or measured, at a time",
	"period":          "time between samples",
	"poll-interval":   "time between looks at the scheduler",
	"plot":            "figures to draw, a .svg or .png file, or a page, .html",
	"reason":          "why, for people and 'autosched admin audit list'",
	"revision":        "revision of the configuration",
	"round":           "number of a stored round",
	"rule":            "these rules only",
	"rules":           "YAML file of rules, instead of the built-in ones",
	"runs":            "directory of the service, or CSV written by simulate --jobs-out",
	"seed":            "seed of everything random",
	"seeds":           "number of seeds, from --seed on, of what draws",
	"set":             "key=value to set, repeatable; arrays as 3250,7200",
	"settings":        "YAML file of settings: keys are the names of flags, which count more",
	"show":            "name at most this many rejected rows of a file; all are counted",
	"slurm-conf":      "the site's slurm.conf, or on a history the output of scontrol show config: the settings in force",
	"space":           "file of a space: parameters, and rules between them",
	"state-dir":       "directory of notes (default: a hidden one beside the file)",
	"subject-to": "constraint METRIC<=BOUND, repeatable: a multiple of the incumbent's, a number or both " +
		"(p99_jct<=1.1*incumbent, avg_queue<=30m, tenant_p95_queue<=1.1*incumbent+60s)",
	"take-over":     "replace a file that the adapter did not write, once",
	"telemetry":     "file of telemetry; repeat the flag for several",
	"tiers":         "JSON of what is known of the columns",
	"timeout":       "how long each call, command or step may take",
	"timezone":      "zone whose clock is meant where none is named, such as Europe/Berlin (default: UTC)",
	"tls-cert":      "PEM file of this program's certificate, and the chain above it",
	"tls-key":       "PEM file of the certificate's private key",
	"to":            "end of the window, which is not part of it (default: that of the data)",
	"top":           "how many to print, the first ones",
	"trace":         "trace file, or \"sample\" or \"sample-shifts\", synthetic ones that are built in",
	"until":         "end, such as 2026-11-24T08:00:00Z, in event time, of findings by the service's clock",
	"validate-only": "check only, store nothing",
	"wait":          "wait until the scheduler is registered, or the study is paused or over",
	"workers":       "parallel evaluations (0: one per processor, of the service less one); no result depends on it",
	"workload":      "workload of the service, as SCHEDULER/WORKLOAD",
	"objective": "what to minimise: a metric (" + strings.Join(round.Metrics(), ", ") + "; the tenants' only as " +
		"constraints), a weighted sum of ratios to the incumbent's (0.7*avg_jct+0.3*p99_jct), or metrics in order of " +
		"rank (p99_jct within 2% then avg_jct)",
	"sampler": "what suggests configurations: " + strings.Join(SamplerNames(), ", "),
	"scheduler": "scheduler: " + strings.Join(schedulers.Names(), ", ") + "; after the name, " +
		schedulers.DeferSuffix + " lets deferrable jobs wait for cheap hours, " + schedulers.SleepSuffix +
		" nodes without jobs sleep",
	"models": "performance models: " + strings.Join(simulator.ModelSets, " or ") + ", which are built in, or a JSON " +
		"file, as 'autosched forecast models show' prints (default: by the GPU model of the cluster)",
}

// describe completes usage texts by meanings: empty ones, and ones that are a note in parentheses alone, such as a
// default of their own.
func describe(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		describe(sub)
	}
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Usage == "":
				f.Usage = meanings[f.Name]
			case f.Usage[0] == '(':
				meaning, _, _ := strings.Cut(meanings[f.Name], " (default")
				f.Usage = meaning + " " + f.Usage
			}
		})
	}
}

// flagGroups are the headings under which --help lists flags, in this order.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Workload", []string{"trace", "windows", "column", "timezone", "shards-per-gpu", "requeue-restarts", "from",
		"to", "at", "warmup", "skip-wider", "gpus-per-proc", "scenario", "scenarios", "recipe", "profile", "days",
		"job-count", "load", "max-duration", "start", "vc", "data", "graph", "base", "a", "b", "job", "history-from",
		"curves", "test-curves", "prevalence", "varied", "waste", "seed", "labels", "workload", "ended", "future",
		"at-row", "group", "tiers", "most-windows"}},
	{"Telemetry", []string{"telemetry", "queue", "iterations", "pods", "messages", "guardrails", "period",
		"node", "resolution", "pid-map", "scrape", "single", "pairs", "metrics", "match", "header-file",
		"step", "scrape-time", "buffer", "rounds"}},
	{"Rules", []string{"rules", "rule", "entity", "state", "price", "detected"}},
	{"Reading", []string{"saved", "format", "columns", "strict", "show", "max-rows", "anonymize", "keep-tenants",
		"key-file", "shift"}},
	{"Cluster", []string{"site", "cluster", "nodes", "gpus-per-node", "node-events", "runs", "placement",
		"interconnect", "models", "quota", "move-quota", "node-group"}},
	{"Scheduler", []string{"scheduler", "schedulers", "builtin", "space", "display-name", "label",
		"spec", "presets", "row", "preset", "config", "slurm-conf", "tune-qos", "set", "set-at", "recorded-scheduler",
		"ignore-fidelity", "grid", "round", "estimates", "max-preemptions", "min-run"}},
	{"Energy", []string{"energy", "power", "prices", "carbon", "carbon-zone", "tariff-timezone", "deferrable",
		"defer-by", "measured", "facility-meter", "idle-until"}},
	{"Goal", []string{"objective", "objectives", "subject-to", "pareto", "metric", "maximize", "adoption", "guard",
		"always", "max-changes", "flap-window", "quiet-hours", "rollback-hold", "canary", "wave-share", "soak-time"}},
	{"Search", []string{"methods", "full", "search", "weight", "searches", "sampler", "samplers", "budget",
		"trial-budget", "fixed-budget", "time", "interval", "generate", "horizon", "horizons", "every", "unit",
		"count", "compare", "futures", "truth", "workers", "reference", "parallel", "trial-time", "hours", "seeds",
		"configs", "segment", "stride", "sizes", "repeats", "only", "ablate", "build", "lease", "allow-repeats",
		"causal", "refine"}},
	{"Learning", []string{"train", "train-share", "model", "replace", "boosted", "log-objectives", "test",
		"alpha", "tier-mode", "bootstrap", "deadline"}},
	{"Service", []string{"server", "max-staleness", "service", "listen", "operations", "agents", "evaluators", "findings-rounds",
		"findings-rules", "findings-price", "findings-webhook", "dir", "timeout", "id", "speedup", "instances",
		"faults", "drain", "poll-after", "deleted", "round-limit", "start-anew", "acknowledge-deadline",
		"keep-rounds", "retain", "retain-audit", "settings", "check-settings", "new-epoch", "validate-only",
		"etag", "all", "until", "reason", "limit", "mode", "from-revision", "backup", "outcome", "event-time", "wait-time",
		"energy-file", "valid-days", "filter", "order-by"}},
	{"Adapter", []string{"instance", "file", "state-dir", "form", "check", "reload", "read-back", "take-over",
		"config-file", "registered", "refuse", "agent", "one-life", "poll-interval", "log", "include", "reconfigure",
		"restart", "install", "allow-qos", "history", "requeue-resumes", "dry-run", "original"}},
	{"Limits", []string{"limit-schedulers", "limit-schedulers-per-caller", "limit-events", "limit-events-per-caller",
		"limit-acknowledgements", "limit-streams", "limit-streams-per-caller", "limit-watches",
		"limit-watches-per-caller", "limit-requests", "limit-samples", "limit-message"}},
	{"Access", []string{"tls-ca", "tls-cert", "tls-key", "client-ca", "roles", "token-file", "allow-plaintext",
		"allow-anonymous"}},
	{"Output", []string{"conf-out", "models-out", "node-events-out", "json", "out", "title", "top", "plot", "tables",
		"record", "trials", "jobs-out", "events-out", "series", "series-by-tenant", "series-interval", "timeline",
		"log-format", "log-level", "otlp-endpoint", "otlp-ratio", "tiers-out", "print", "as", "verbose", "help",
		"help-all"}},
}

// fewFlags is the most that --help lists without headings.
const fewFlags = 8

// commonFlags are the flags that --help lists of a command with many, in this order.
var commonFlags = []string{"trace", "site", "telemetry", "cluster", "nodes", "gpus-per-node", "from", "to", "at",
	"scheduler", "schedulers", "row", "recorded-scheduler", "config", "settings", "slurm-conf", "preset", "set",
	"methods", "objective", "subject-to", "budget", "horizon", "interval", "seeds", "seed",
	"file", "dir", "listen", "operations", "tls-cert", "tls-key", "client-ca", "roles", "token-file", "energy",
	"energy-file", "power", "server", "id", "mode", "reload", "plot", "out", "conf-out", "json", "help", "help-all"}

// connectionFlags are the flags that --help leaves out of any command that calls the service.
var connectionFlags = []string{"tls-ca", "tls-cert", "tls-key", "token-file", "max-staleness", "timeout", "filter", "order-by", "etag"}

// manyFlags is the number of flags above which --help lists the common ones alone.
const manyFlags = 20

// helpAll is the flag --help-all of a command: --help with all flags.
type helpAll struct{ cmd *cobra.Command }

func (h helpAll) String() string   { return "false" }
func (h helpAll) Type() string     { return "bool" }
func (h helpAll) IsBoolFlag() bool { return true }

func (h helpAll) Set(text string) error { return h.cmd.Flags().Set("help", text) }

// groupFlags makes --help list the common flags of commands that have many, and --help-all the others by group.
func groupFlags(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", FlagUsages)
	const local = "{{if .HasAvailableLocalFlags}}\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}"
	const inherited = "{{if .HasAvailableInheritedFlags}}\n\nGlobal Flags:\n" +
		"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}"
	template := root.UsageTemplate()
	if !strings.Contains(template, local+inherited) {
		panic("autosched: cobra's usage template lists flags in another way")
	}
	template = strings.Replace(template, local+inherited, "{{flagUsages .}}", 1)
	template = strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
	root.SetUsageTemplate(template)
	root.SetHelpFunc(printHelp)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		cmd.InitDefaultHelpFlag()
		if _, rest := divide(flagsOf(cmd)); len(rest) > 0 {
			cmd.Flags().VarPF(helpAll{cmd}, "help-all", "", "help with all flags").NoOptDefVal = "true"
		}
	}
	visit(root)
}

// printHelp prints the help of a command in lines that fit the output. Command lines stay whole.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	lines := table.NewLines(out, out)
	fmt.Fprintf(lines, "%s\n\n%s", filled(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), table.Width(out)),
		cmd.UsageString())
	_ = lines.Flush() // as cobra prints help
}

// filled fills the paragraphs of a text that have lines wider than a width anew. Lines with an indent stay.
func filled(text string, width int) string {
	var out, paragraph []string
	flush := func() {
		if slices.ContainsFunc(paragraph, func(line string) bool { return utf8.RuneCountInString(line) > width }) {
			paragraph = table.Wrap(strings.Join(paragraph, " "), width)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			flush()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// flagsOf returns the flags of a command, inherited ones included.
func flagsOf(cmd *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.AddFlagSet(cmd.LocalFlags())
	all.AddFlagSet(cmd.InheritedFlags())
	return all
}

// divide returns the flags that --help lists, in order, and the others.
func divide(flags *pflag.FlagSet) (common, rest []*pflag.Flag) {
	n := 0
	flags.VisitAll(func(*pflag.Flag) { n++ })
	calls := flags.Lookup("server") != nil && flags.Lookup("tls-ca") != nil
	rank := func(f *pflag.Flag) int { return slices.Index(commonFlags, f.Name) }
	flags.VisitAll(func(f *pflag.Flag) {
		if n > manyFlags && rank(f) < 0 || calls && n <= manyFlags && slices.Contains(connectionFlags, f.Name) {
			rest = append(rest, f)
		} else {
			common = append(common, f)
		}
	})
	if n > manyFlags {
		slices.SortStableFunc(common, func(a, b *pflag.Flag) int { return rank(a) - rank(b) })
	}
	return common, rest
}

// FlagUsages lists the flags of a command, the common ones first. The others are listed under their headings if the
// command line has --help-all. A flag without a heading comes last.
func FlagUsages(cmd *cobra.Command) string {
	flags, width := flagsOf(cmd), table.Width(cmd.OutOrStdout())
	common, rest := divide(flags)
	first := pflag.NewFlagSet("", pflag.ContinueOnError)
	first.SortFlags = len(rest) == 0
	for _, f := range common {
		first.AddFlag(f)
	}
	if len(rest) == 0 {
		if len(common) <= fewFlags {
			return section("Flags", first, width)
		}
		rest, first = common, pflag.NewFlagSet("", pflag.ContinueOnError)
	} else if f := flags.Lookup("help-all"); f != nil && !f.Changed {
		return section("Flags", first, width) +
			fmt.Sprintf("\n\n%d more flags: %s --help-all", len(rest), cmd.CommandPath())
	}
	groups := map[string]*pflag.FlagSet{}
	for _, f := range rest {
		title := titleOf(f.Name)
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[title].AddFlag(f)
	}
	var out strings.Builder
	out.WriteString(section("Flags", first, width))
	for _, g := range flagGroups {
		if groups[g.title] != nil {
			out.WriteString(section(g.title+" flags", groups[g.title], width))
		}
	}
	if groups[other] != nil {
		out.WriteString(section(other+" flags", groups[other], width))
	}
	return out.String()
}

const other = "Other"

// titleOf is the heading of a flag.
func titleOf(flag string) string {
	for _, g := range flagGroups {
		if slices.Contains(g.flags, flag) {
			return g.title
		}
	}
	return other
}

func section(title string, flags *pflag.FlagSet, width int) string {
	if !flags.HasAvailableFlags() {
		return ""
	}
	return fmt.Sprintf("\n\n%s:\n%s", title, strings.TrimRight(flags.FlagUsagesWrapped(width), "\n "))
}

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
		"outcome":      OneOf("applied", "rejected", "failed"),
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
