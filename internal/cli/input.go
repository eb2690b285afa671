package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/calibrate"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// ReadRules reads the file of rules that a flag names, or takes the built-in ones, and keeps some.
func ReadRules(flag, path string, only []string) (*patterns.RuleSet, error) {
	set := patterns.Builtin()
	if path != "" {
		in, err := atomicfile.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		defer in.Close()
		if set, err = patterns.ReadRules(in, path); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	if len(only) == 0 {
		return set, nil
	}
	kept := &patterns.RuleSet{Version: set.Version}
	for _, id := range only {
		r := set.Rule(id)
		if r == nil {
			var ids []string
			for i := range set.Rules {
				ids = append(ids, set.Rules[i].ID)
			}
			return nil, UsageError{fmt.Errorf("--rule: %q is not one of %s", id, strings.Join(ids, ", "))}
		}
		kept.Rules = append(kept.Rules, *r)
	}
	return kept, nil
}

// OpenRecords opens the directory of a service that is stopped.
func OpenRecords(dir string) (*store.Reader, error) {
	r, err := store.OpenReader(dir)
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w: stop 'autosched serve' while it is read", err)
	}
	return r, err
}

// maxReport bounds the report of an evaluation, which is larger than a configuration.
const maxReport = 256 << 20

// ReadConfigText reads the configuration that FILE has, or that FILE:NAME names of a document
// with several.
func ReadConfigText(stdin io.Reader, arg string) (text []byte, scheduler string, err error) {
	path, name := splitConfigName(arg)
	text, err = readUpTo(stdin, path, maxReport)
	switch {
	case err != nil:
		return nil, "", err
	case len(text) > maxReport:
		return nil, "", fmt.Errorf("%s: is larger than %d MiB", path, maxReport>>20)
	}
	if text, scheduler, err = chooseConfig(text, name); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return text, scheduler, nil
}

// splitConfigName splits FILE:NAME after the first prefix that is a file, or standard input.
func splitConfigName(arg string) (path, name string) {
	if _, err := os.Stat(arg); err == nil {
		return arg, ""
	}
	for i := range len(arg) {
		if arg[i] != ':' {
			continue
		}
		if info, err := os.Stat(arg[:i]); arg[:i] == "-" || err == nil && !info.IsDir() {
			return arg[:i], arg[i+1:]
		}
	}
	return arg, ""
}

// chooseConfig finds the configuration of a name: a method of an evaluation, a row of a
// comparison. A text of another kind is one configuration without a name. scheduler is
// whose configuration it is, if the text is a result that names it.
func chooseConfig(text []byte, name string) (config []byte, scheduler string, err error) {
	var doc struct {
		Schema    string `json:"schema"`
		Scheduler string `json:"scheduler"`
		Methods   []struct {
			Method        string          `json:"method"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"methods"`
		Rows []struct {
			Name          string          `json:"name"`
			Scheduler     string          `json:"scheduler"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"rows"`
	}
	several := json.Unmarshal(text, &doc) == nil && len(doc.Methods)+len(doc.Rows) > 0
	switch {
	case doc.Schema != "" && !(strings.HasPrefix(doc.Schema, schema.Name("")) && strings.HasSuffix(doc.Schema, "/v1")):
		return nil, "", fmt.Errorf("has the schema %q: this program reads version 1 of what autosched prints, such as %s; "+
			"use the program that wrote it, or give the values by parameter", doc.Schema, schema.Name("tuning/v1"))
	case !several && name == "":
		// The scheduler of other documents is one of the service, by a name of its own.
		if doc.Schema != schema.Name("tuning/v1") && doc.Schema != schema.Name("simulation/v1") {
			doc.Scheduler = ""
		}
		return text, doc.Scheduler, nil
	case !several:
		return nil, "", fmt.Errorf("has no configuration %q: it is no result of evaluate or compare", name)
	}
	var names []string
	for _, r := range doc.Rows {
		if r.Name == name {
			return r.Configuration, r.Scheduler, nil
		}
		names = append(names, r.Name)
	}
	for _, m := range doc.Methods {
		if m.Method == name {
			return m.Configuration, doc.Scheduler, nil
		}
		names = append(names, m.Method)
	}
	if name == "" {
		return nil, "", fmt.Errorf("has several configurations: choose one as FILE:NAME, of %s", strings.Join(names, ", "))
	}
	return nil, "", fmt.Errorf("has no configuration %q; there are %s", name, strings.Join(names, ", "))
}

// MaxSpecBytes bounds a specification file.
const MaxSpecBytes = 4 << 20

// ReadScheduler reads a YAML or JSON file; JSON is YAML.
func ReadScheduler(stdin io.Reader, path string) (*pb.Scheduler, error) {
	text, err := ReadText(stdin, path)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxSpecBytes {
		return nil, fmt.Errorf("%s: is larger than %d MiB", path, MaxSpecBytes>>20)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tree, ok := document.(map[string]any)
	switch {
	case document == nil:
		return nil, fmt.Errorf("%s: is empty: it needs the fields of a Scheduler, such as name and spec", path)
	case !ok:
		return nil, fmt.Errorf("%s: is not a document with fields, such as name and spec", path)
	}
	delete(tree, schema.Key) // of scheduler get --json
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &pb.Scheduler{}
	if err := protojson.Unmarshal(asJSON, s); err != nil {
		return nil, fmt.Errorf("%s: %s", path, fieldError(asJSON, err))
	}
	return s, nil
}

// jsonPosition is how protojson begins an error about a document of one line.
var jsonPosition = regexp.MustCompile(`^(?:syntax error )?\(line 1:(\d+)\): `)

// fieldError is an error of protojson about a document of one line, with the path of
// the field instead of its column.
func fieldError(document []byte, err error) string {
	// protojson varies a space in its texts on purpose.
	text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
	at := jsonPosition.FindStringSubmatch(text)
	if at == nil {
		return text
	}
	column, err := strconv.Atoi(at[1])
	if err != nil {
		return text
	}
	text = text[len(at[0]):]
	if path, found := pathAt(json.NewDecoder(bytes.NewReader(document)), document, column, "scheduler"); found {
		return path + ": " + text
	}
	return text
}

// pathAt is the path of the field whose name or value has the column, which counts
// characters from 1. The next value of the decoder is at the path given.
func pathAt(d *json.Decoder, document []byte, column int, path string) (string, bool) {
	token, err := d.Token()
	if err != nil {
		return "", false
	}
	reached := func() bool { return utf8.RuneCount(document[:d.InputOffset()]) >= column }
	if reached() {
		return path, true
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return "", false
	}
	for i := 0; d.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if token == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return "", false
			}
			if at = fmt.Sprintf("%s.%s", path, name); reached() {
				return at, true
			}
		}
		if found, ok := pathAt(d, document, column, at); ok {
			return found, true
		}
	}
	_, err = d.Token() // the closing bracket
	return path, err == nil && reached()
}

// ParseMode reads --mode; nothing is no mode.
func ParseMode(text string) (pb.SchedulerSpec_Mode, error) {
	switch text {
	case "":
		return pb.SchedulerSpec_MODE_UNSPECIFIED, nil
	case "recommend", "auto":
		return pb.SchedulerSpec_Mode(pb.SchedulerSpec_Mode_value[strings.ToUpper(text)]), nil
	}
	return 0, UsageError{fmt.Errorf("--mode: %q is not recommend or auto", text)}
}

// ReadText reads a small file, or standard input for "-": at most a byte more than MaxSpecBytes.
func ReadText(stdin io.Reader, path string) ([]byte, error) {
	return readUpTo(stdin, path, MaxSpecBytes)
}

// readUpTo reads a file, or standard input for "-": at most a byte more than most.
func readUpTo(stdin io.Reader, path string, most int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(filepath.Clean(path))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// LoadSpace reads a space, or that of a registration.
func LoadSpace(text []byte, path string) (*space.Space, error) {
	var top map[string]any
	if len(text) > MaxSpecBytes || yaml.Unmarshal(text, &top) != nil || top["spec"] == nil {
		return space.Load(text)
	}
	s, err := ReadScheduler(bytes.NewReader(text), "-")
	if err != nil {
		return nil, errors.New(path + strings.TrimPrefix(err.Error(), "-"))
	}
	id := ShortName(s.GetName())
	if id == "" {
		id = s.GetSpec().GetSchedulerType()
	}
	return registration.Check(Builtins(), &pb.CreateSchedulerRequest{Scheduler: s, SchedulerId: id})
}

// ListViolations is an error with a line for each violation.
func ListViolations(path string, err error) error {
	var v space.Violations
	if !errors.As(err, &v) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not valid:", path)
	for _, one := range v {
		b.WriteString("\n  ")
		b.WriteString(one.String())
	}
	return errors.New(b.String())
}

// Builtins are the schedulers that can be registered: schedulers with something to
// tune that do not need to know the future.
func Builtins() []controller.Builtin {
	var out []controller.Builtin
	for _, s := range schedulers.All {
		if params := s.Space.Params(); len(params) > 0 && !s.Clairvoyant {
			out = append(out, controller.Builtin{Name: s.Name, Params: params, Rules: s.Space.Rules(),
				Site: s.SiteParam, Alone: s.SiteAlone})
		}
	}
	return out
}

// ReadRuns reads the directory of a service, or a CSV of jobs.
func ReadRuns(path string, perNode int) ([]calibrate.Run, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return runsOfService(path, perNode)
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	runs, err := calibrate.ReadCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return runs, nil
}

// runsOfService reads the events of all schedulers.
func runsOfService(dir string, perNode int) (_ []calibrate.Run, err error) {
	found, _ := filepath.Glob(filepath.Join(dir, "events-*.db"))
	if checkpoints, _ := filepath.Glob(filepath.Join(dir, "checkpoint-*.db")); len(found)+len(checkpoints) == 0 {
		return nil, fmt.Errorf("%s has no events of a service", dir)
	}
	r, err := OpenRecords(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var c calibrate.Collectors
	c.PerNode = perNode
	damage, err := r.ReplayEvents("", c.Add)
	for _, d := range damage {
		err = errors.Join(err, d.Err)
	}
	return c.Runs(), err
}

// ModelsFlag is --models and --interconnect.
type ModelsFlag struct{ Path, interconnect string }

// Add adds the flags of the performance models.
func (f *ModelsFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.interconnect, "interconnect", "",
		"the cluster's interconnect, which decides how much slower jobs run when spread: "+
			strings.Join(simulator.DefaultModelSpec().Classes.Interconnects(),
				", ")+", or one that --models has (default: what the models say)")
	cmd.Flags().StringVar(&f.Path, "models", "", "")
}

// Spec is the file's models, the built-in ones without a file.
func (f *ModelsFlag) Spec() (*simulator.ModelSpec, error) {
	spec, err := f.Read()
	if err != nil || f.interconnect == "" {
		return spec, err
	}
	spec = spec.Complete()
	classes := *spec.Classes
	classes.Interconnect = f.interconnect
	spec.Classes = &classes
	if err := spec.Validate(); err != nil {
		return nil, UsageError{fmt.Errorf("--interconnect: %w", err)}
	}
	return spec, nil
}

// Read reads the models of the flag, the built-in ones without it.
func (f *ModelsFlag) Read() (*simulator.ModelSpec, error) {
	if f.Path == "" {
		return simulator.DefaultModelSpec(), nil
	}
	if spec, ok := simulator.ModelSet(f.Path); ok {
		return spec, nil
	}
	spec, err := ReadFile(f.Path, simulator.ReadModels)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	return spec, nil
}

// apply sets the models of a simulation of a cluster. Those of its GPUs' model are taken if all have the same.
func (f *ModelsFlag) apply(o *simulator.Options, c *workload.Cluster) error {
	use := *f
	if f.Path == "" && len(c.Groups) > 0 {
		use.Path = simulator.ModelSetOf(c.Groups[0].GPUModel)
		for i := range c.Groups {
			if simulator.ModelSetOf(c.Groups[i].GPUModel) != use.Path {
				use.Path = ""
			}
		}
	}
	if (use.Path == "" || use.Path == simulator.ModelSets[0]) && f.interconnect == "" {
		return nil
	}
	spec, err := use.Spec()
	if err == nil {
		o.Models = spec.Models()
	}
	return err
}

// TariffFlags name the constants and series by which power becomes energy, cost and carbon.
type TariffFlags struct {
	power, prices, carbon, grid, Zone, by string
	deferrable                            []string

	marks energy.Marks // of deferrable, after check
}

// Add adds the flags of the power model, of prices and of carbon intensities.
func (f *TariffFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.power, "power", "", "YAML file of power, cost and carbon constants; what it omits keeps its built-in value")
	fl.StringVar(&f.prices, "prices", "",
		"CSV file of ts,price_per_mwh: electricity prices in $/MWh, each from an instant on (default: a constant)")
	fl.StringVar(&f.carbon, "carbon", "",
		"CSV file of ts,zone,g_per_kwh: carbon intensities, each from an instant on (default: a constant)")
	fl.StringVar(&f.grid, "carbon-zone", "", "zone of --carbon, if the file has several")
	fl.StringVar(&f.Zone, "tariff-timezone", "UTC",
		"zone of instants without an offset in --prices and --carbon, such as Europe/Berlin")
}

// AddDeferrable adds the flags of jobs that wait for cheap hours.
func (f *TariffFlags) AddDeferrable(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.deferrable, "deferrable", nil,
		"jobs that may wait for cheap hours, repeatable: user=, tenant=, model=, key= or partition= and a value, or a "+
			"share of the jobs such as 0.3; for schedulers with "+schedulers.DeferSuffix)
	fl.StringVar(&f.by, "defer-by", "", "what deferrable jobs wait for: price or carbon (default: price with --prices)")
	_ = cmd.RegisterFlagCompletionFunc("defer-by", OneOf("price", "carbon"))
}

// Check checks all that needs no file, for the scheduler of a name.
func (f *TariffFlags) Check(scheduler string) error {
	f.marks = nil
	for _, text := range f.deferrable {
		m, err := energy.ParseMark(text)
		if err != nil {
			return UsageError{fmt.Errorf("--deferrable: %w", err)}
		}
		f.marks = append(f.marks, m)
	}
	defers := schedulers.Defers(scheduler)
	switch {
	case defers && len(f.marks) == 0:
		return UsageError{fmt.Errorf("--deferrable is missing: %s defers jobs, so name those that may wait, such as 0.3 or "+
			"tenant=batch", scheduler)}
	case !defers && (len(f.marks) > 0 || f.by != ""):
		return UsageError{fmt.Errorf("--deferrable and --defer-by are for schedulers that defer jobs: --scheduler %s%s",
			scheduler, schedulers.DeferSuffix)}
	case f.by != "" && f.by != "price" && f.by != "carbon":
		return UsageError{fmt.Errorf("--defer-by: %q is neither price nor carbon", f.by)}
	case f.by == "price" && f.prices == "", f.by == "carbon" && f.carbon == "":
		return UsageError{fmt.Errorf("--defer-by %s: --%s is missing", f.by,
			map[string]string{"price": "prices", "carbon": "carbon"}[f.by])}
	}
	return nil
}

// Given reports whether any of the flags is.
func (f *TariffFlags) Given() bool { return f.power != "" || f.prices != "" || f.carbon != "" }

// Read reads the files of the flags.
func (f *TariffFlags) Read() (*energy.Tariff, error) {
	zone, err := trace.ParseZone(f.Zone)
	if err != nil {
		return nil, UsageError{fmt.Errorf("--tariff-timezone: %w", err)}
	}
	if f.grid != "" && f.carbon == "" {
		return nil, UsageError{errors.New("--carbon-zone: is a zone of --carbon, which is missing")}
	}
	files := energy.Files{Power: f.power, Prices: f.prices, Carbon: f.carbon, CarbonZone: f.grid}
	t, err := files.Read(zone)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return t, nil
}

// Measure makes runs count the energy of jobs; a nil tariff leaves them as they are.
func (f *TariffFlags) Measure(t *energy.Tariff, in *ReplayInput, c workload.Cluster, notes io.Writer) error {
	if t == nil {
		return nil
	}
	meter, err := t.Meter(c, in.Trace.Zero())
	if err != nil {
		return err
	}
	in.Options.Meter = meter
	return f.Operate(t, in, notes)
}

// Operate sets the options of sleeping nodes and deferred jobs.
func (f *TariffFlags) Operate(t *energy.Tariff, in *ReplayInput, notes io.Writer) error {
	constant, err := t.Operate(&in.Options, f.marks, f.by, in.Trace.Zero())
	if constant {
		fmt.Fprintln(notes, "note: prices and carbon intensities are constant: no job is deferred")
	}
	return err
}

// SleepText describes the cost of sleep to jobs.
func SleepText(s *simulator.Sleep) string {
	return fmt.Sprintf("%d wake-ups, %d jobs wait for nodes to wake, %.0f s on average and %.0f s at most", s.Wakes,
		s.Delayed, s.MeanDelay, s.MaxDelay)
}

// DeferredText says how long jobs wait for cheap hours.
func DeferredText(d *simulator.Deferred) string {
	return fmt.Sprintf("%d jobs, %.0f s on average and %.0f s at most", d.Jobs, d.MeanDelay, d.MaxDelay)
}
