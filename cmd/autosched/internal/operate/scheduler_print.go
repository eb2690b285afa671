package operate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func printSchedulers(out io.Writer, all *pb.ListSchedulersResponse) error {
	w := table.New(out, "NAME\tKIND\tMODE\tCLUSTER\tREVISION\tEVENTS\tEVENT TIME")
	for _, s := range all.GetSchedulers() {
		spec := s.GetSpec()
		fmt.Fprintf(w, "%s\t%s\t%s\t%dx%d\t%s\t%d\t%s\n", cli.ShortName(s.GetName()), spec.GetSchedulerType(),
			modeWord(s),
			spec.GetCluster().GetNodes(), spec.GetCluster().GetGpusPerNode(),
			cmp.Or(cli.ShortName(s.GetCurrentConfiguration()), "-"),
			s.GetStatus().GetEventCount(), eventTime(s))
	}
	return w.Flush()
}

// printScheduler prints a scheduler, with the values of parameters that run if they are known.
func printScheduler(out io.Writer, s *pb.Scheduler, runs map[string]*structpb.Value) error {
	spec, st := s.GetSpec(), s.GetStatus()
	w := table.New(out, "")
	fmt.Fprintf(w, "scheduler\t%s (%s, %s)\n", cli.ShortName(s.GetName()), spec.GetSchedulerType(), modeWord(s))
	cluster := workload.Uniform(int(spec.GetCluster().GetNodes()), int(spec.GetCluster().GetGpusPerNode()))
	fmt.Fprintf(w, "cluster\t%s\n", cluster)
	if s.GetRevision() > 1 {
		fmt.Fprintf(w, "revision\t%d of space, cluster and objective\n", s.GetRevision())
	}
	for _, key := range slices.Sorted(maps.Keys(s.GetLabels())) {
		fmt.Fprintf(w, "label\t%s=%s\n", key, s.GetLabels()[key])
	}
	r := spec.GetRollout()
	if spec.GetSchedulerType() == controller.External {
		fmt.Fprintf(w, "objective\t%s, which studies measure\n", spec.GetObjective().GetMetricId())
	} else {
		fmt.Fprintf(w, "objective\t%s, every %s\n",
			spec.GetObjective().GetMetricId()+spec.GetObjective().GetGoal(),
			units.Duration(r.GetUpdateInterval().AsDuration().Seconds()))
		guard := r.GetGuard()
		fmt.Fprintf(w, "changes\tadoption %s, guard %v\n", r.GetAdoption(), cli.ShareFlag{To: &guard})
		fmt.Fprintf(w, "limits\t%s\n", limitsText(r))
	}
	if r.GetCanary() || r.GetWaveShare() > 0 {
		fmt.Fprintf(w, "waves\t%s\n", wavesText(r))
	}
	fields := cli.Fields{Writer: w}
	fields.Add("simulated", simulationText(spec.GetSimulation()))
	fmt.Fprintf(w, "current\trevision %s\n", cmp.Or(cli.ShortName(s.GetCurrentConfiguration()), "-"))
	if next := st.GetProposedConfiguration(); next != "" {
		fmt.Fprintf(w, "proposed\trevision %s waits %s\n", cli.ShortName(next),
			cli.WaitsText(cli.ShortName(s.GetName())))
	}
	if x := s.GetPause(); x != nil {
		fmt.Fprintf(w, "paused\t%s\n", byText(x.GetActor(), x.GetCreateTime(), x.GetReason()))
	}
	fields.Add("degraded", st.GetDegraded())
	for _, i := range st.GetInstances() {
		fmt.Fprintf(w, "instance\t%s\n", instanceText(i))
	}
	fmt.Fprintf(w, "events\t%d, until %s", st.GetEventCount(), eventTime(s))
	if n := st.GetLateEventCount(); n > 0 {
		fmt.Fprintf(w, ", %d too late for their round", n)
	}
	fmt.Fprintln(w)
	fields.Add("last round", st.GetLastDecision(), "fidelity", st.GetFidelity(), "held", st.GetHold(),
		"watched", st.GetWatching())
	printReported(w, st.GetReportedMetrics())
	if i := st.GetLastIncident(); i != nil {
		fmt.Fprintf(w, "incident\t%s\n", incidentText(i))
	}
	fields.Add("last error", st.GetLastError())
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	head, row := "PARAMETER", func(*pb.ParameterSpec) string { return "" }
	if runs != nil {
		head = "PARAMETER\tRUNS"
		row = func(p *pb.ParameterSpec) string {
			v := runs[p.GetParameterId()]
			if v == nil {
				return "-\t"
			}
			return cmp.Or(specialText(p, v), "-") + "\t"
		}
	}
	fmt.Fprintln(w, head+"\tDEFAULT\tUNIT\tDESCRIPTION")
	for _, p := range spec.GetParameters() {
		fmt.Fprintf(w, "%s\t%s%s\t%s\t%s\n", p.GetParameterId(), row(p),
			cmp.Or(specialText(p, p.GetDefaultValue()), "-"), cmp.Or(p.GetUnit(), "-"), p.GetDescription())
	}
	return w.Flush()
}

// instanceText describes the reported and the desired revision of an instance.
func instanceText(i *pb.InstanceStatus) string {
	text := fmt.Sprintf("%s runs revision %d", cmp.Or(i.GetInstanceId(), "-"), i.GetReportedRevision())
	if i.GetReportedRevision() == 0 {
		text = cmp.Or(i.GetInstanceId(), "-") + " runs nothing that it said"
	}
	if i.GetReportedRevision() != i.GetDesiredRevision() {
		text += fmt.Sprintf(", should run revision %d", i.GetDesiredRevision())
	}
	return text + " (" + i.GetCondition().String() + ")"
}

// simulationText lists the differences of a scheduler's simulation from the default, "" for none.
func simulationText(s *pb.Simulation) string {
	var parts []string
	if n := s.GetMaxPreemptions(); n > 0 {
		parts = append(parts, fmt.Sprintf("at most %d preemptions of a job", n))
	}
	if d := s.GetMinRun().AsDuration(); d > 0 {
		parts = append(parts, fmt.Sprintf("no preemption in the first %s", units.Duration(d.Seconds())))
	}
	if sections := slices.Sorted(maps.Keys(s.GetModels().GetFields())); len(sections) > 0 {
		parts = append(parts, "models of its own for "+strings.Join(sections, ", "))
	}
	return strings.Join(parts, "; ")
}

// modeWord is a scheduler's mode, and whether its tuning is paused.
func modeWord(s *pb.Scheduler) string {
	word := cli.EnumWord(s.GetSpec().GetMode())
	if s.GetState() == pb.Scheduler_PAUSED {
		word += ", paused"
	}
	if s.GetState() == pb.Scheduler_DELETED {
		word += ", deleted"
	}
	return word
}

func eventTime(s *pb.Scheduler) string {
	if t := s.GetStatus().GetEventTime(); t != nil {
		return cli.Instant(t)
	}
	return "-"
}

// specialText is a value of a parameter as people write it, a special one by its name.
func specialText(p *pb.ParameterSpec, v *structpb.Value) string {
	if n, ok := v.GetKind().(*structpb.Value_NumberValue); ok {
		for _, s := range p.GetSpecialValues() {
			if s.GetValue() == n.NumberValue && s.GetDisplayName() != "" {
				return s.GetDisplayName()
			}
		}
		if p.GetDurationValueSpec() != nil {
			return (&space.Param{Kind: space.KindDuration}).Format(space.Num(n.NumberValue))
		}
	}
	return valueText(v)
}

// valueText is a value as people write it.
func valueText(v *structpb.Value) string {
	if v == nil {
		return "-"
	}
	if n, ok := v.GetKind().(*structpb.Value_NumberValue); ok {
		return strconv.FormatFloat(n.NumberValue, 'f', -1, 64)
	}
	if l := v.GetListValue(); l != nil {
		parts := make([]string, len(l.GetValues()))
		for i, one := range l.GetValues() {
			parts[i] = valueText(one)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v.AsInterface())
}

// wavesText describes the waves of a rollout.
func wavesText(r *pb.RolloutPolicy) string {
	var parts []string
	if r.GetCanary() {
		parts = append(parts, "1 instance")
	}
	if share := r.GetWaveShare(); share > 0 {
		parts = append(parts, fmt.Sprintf("%g%% of them", 100*share))
	}
	text := strings.Join(append(parts, "all"), ", ")
	if soak := r.GetSoakTime().AsDuration(); soak > 0 {
		text += fmt.Sprintf("; %s between", units.Duration(soak.Seconds()))
	}
	return text
}

// limitsText describes the limits on changes by tuning.
func limitsText(r *pb.RolloutPolicy) string {
	var parts []string
	if n := r.GetMaxChangesPerDay(); n > 0 {
		parts = append(parts, units.Plural(int(n), "change")+" in 24 h")
	}
	if d := r.GetFlapWindow().AsDuration(); d > 0 {
		parts = append(parts, fmt.Sprintf("one return to earlier values in %s", units.Duration(d.Seconds())))
	}
	if d := r.GetRollbackHold().AsDuration(); d > 0 {
		parts = append(parts, fmt.Sprintf("none for %s after a rollback", units.Duration(d.Seconds())))
	}
	for _, q := range r.GetQuietHours() {
		zone := q.GetTimeZone()
		if zone == "" {
			zone = "UTC"
		}
		parts = append(parts, fmt.Sprintf("none from %s to %s %s", q.GetStart(), q.GetEnd(), zone))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
