package agent_test

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/agent"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// exceptions are the fields of workload.Event that a fold of events neither keeps nor uses, by the reason. Any other
// field must be kept or used by each fold.
var exceptions = map[string]map[string]string{
	"api": {
		"the service does not know it: it is of simulations and recorded traces": recorded,
	},
	"store": {
		"no scheduler reports it": recorded,
	},
	"trace": {
		"the reader of traces finds it from events": recorded,
		"jobs of a trace have no state":             "SharesWith Pool Attained HasAttained LevelAttained HasLevel LeaseUntil",
	},
	"agent": {
		"it names its own instance and offer": "Instance Hash Epoch.ID Epoch.Counter",
		"the service does not know it":        recorded,
	},
	"ledger": {
		"Finish has the run time":                         "Job.Duration",
		"rules of patterns read it from events":           "Labels",
		"of configurations, which a ledger does not have": "Revision Instance Hash Epoch.ID Epoch.Counter",
	},
	"scanner": {
		"no event is read twice": "ID",
		"no rule depends on it": "Job.Model Job.Submit Job.Deadline Job.Request.GPUModel Job.Request.MilliCPUs " +
			"Job.Request.Memory Job.Request.NodeCount Job.Request.Nice Job.Request.Priority Job.Request.QOS " +
			"Job.Request.Account Job.Request.Requeue Job.Request.HoldOff SharesWith Pool LeaseUntil Lost Attained " +
			"HasAttained LevelAttained HasLevel StartUp Instance Hash Epoch.ID Epoch.Counter",
		"the scanner finds it from events": recorded,
	},
}

// recorded are fields of jobs that events do not report.
const recorded = "Job.Duration Job.Members Job.HasWait Job.Wait Job.Nodes"

// eventField is a field of an event, of its job's request or of a place of its placement.
type eventField struct {
	name  string
	root  reflect.Type
	index []int
}

// eventFields are the fields that hold a value.
func eventFields() (out []eventField) {
	var walk func(root, typ reflect.Type, name string, index []int)
	walk = func(root, typ reflect.Type, name string, index []int) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			path, at := strings.TrimPrefix(name+"."+f.Name, "."), append(slices.Clone(index), i)
			switch {
			case f.Type == reflect.TypeFor[workload.Requested]():
				walk(reflect.TypeFor[workload.Request](), reflect.TypeFor[workload.Request](), "Job.Request", nil)
			case f.Type == reflect.TypeFor[[]workload.NodeShare]():
				walk(reflect.TypeFor[workload.NodeShare](), reflect.TypeFor[workload.NodeShare](), path, nil)
			case f.Type == reflect.TypeFor[[]workload.Event](): // the parts of a snapshot are events
			case f.Type.Kind() == reflect.Struct:
				walk(root, f.Type, path, at)
			default:
				out = append(out, eventField{path, root, at})
			}
		}
	}
	walk(reflect.TypeFor[workload.Event](), reflect.TypeFor[workload.Event](), "", nil)
	return out
}

// with calls f with the field of an event, which it may change.
func (x eventField) with(e *workload.Event, f func(v reflect.Value)) {
	switch x.root {
	case reflect.TypeFor[workload.Request]():
		q := e.Job.Request()
		f(reflect.ValueOf(&q).Elem().FieldByIndex(x.index))
		e.Job.Requested = q.Shared()
	case reflect.TypeFor[workload.NodeShare]():
		if e.Placement = slices.Clone(e.Placement); len(e.Placement) == 0 {
			e.Placement = []workload.NodeShare{{Node: "n1", GPUs: 4}}
		}
		f(reflect.ValueOf(&e.Placement[0]).Elem().FieldByIndex(x.index))
	default:
		f(reflect.ValueOf(e).Elem().FieldByIndex(x.index))
	}
}

func (x eventField) get(e workload.Event) (value any) {
	x.with(&e, func(v reflect.Value) { value = v.Interface() })
	return value
}

// change gives a field another value, which is not zero.
func (x eventField) change(e *workload.Event) {
	texts := map[string]string{"Labels": "debug", "Revision": "7", "Placement.Indexes": "0,1,2,3",
		"Placement.Node": "n2"}
	x.with(e, func(v reflect.Value) {
		switch kind := v.Kind(); {
		case v.Type() == reflect.TypeFor[workload.EventKind]():
			v.SetUint(uint64(workload.Heartbeat))
		case v.Type() == reflect.TypeFor[time.Duration]():
			v.SetInt(v.Int() + int64(time.Hour/2))
		case kind == reflect.String:
			v.SetString(cmp.Or(texts[x.name], "other"))
		case kind == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.CanUint():
			v.SetUint(v.Uint() + 2)
		default:
			v.SetInt(v.Int() + 2)
		}
	})
	switch x.name { // known only with a flag
	case "Attained":
		e.HasAttained = true
	case "LevelAttained":
		e.HasLevel = true
	}
}

// eventCase is an event after others: the fields of the event are changed, or of the first part of a snapshot.
type eventCase struct {
	name   string
	before []workload.Event
	event  workload.Event
}

func (c *eventCase) target(e *workload.Event) *workload.Event {
	if c.event.Kind != workload.TakenSnapshot || len(e.Active) == 0 {
		return e
	}
	return &e.Active[0]
}

// changed is the event with a field changed, and whether that is an event.
func (c *eventCase) changed(x eventField) (e workload.Event, ok bool) {
	e = c.event
	e.Active = slices.Clone(e.Active)
	at := &e
	if x.name != "ID" && x.name != "Time" && x.name != "Kind" {
		at = c.target(&e)
	}
	x.change(at)
	return e, e.Validate() == nil
}

func eventCases() []eventCase {
	n := 0
	event := func(kind workload.EventKind, hour time.Duration) workload.Event {
		n++
		return workload.Event{ID: fmt.Sprint("e", n), Kind: kind, Time: hour * time.Hour, Job: workload.Job{ID: "j"}}
	}
	node := func(kind workload.EventKind, hour time.Duration, name string, gpus int) workload.Event {
		e := event(kind, hour)
		e.Job, e.Node, e.NodeGPUs = workload.Job{}, name, gpus
		return e
	}
	placed := func(kind workload.EventKind, hour time.Duration) workload.Event {
		e := event(kind, hour)
		e.Placement = []workload.NodeShare{{Node: "n1", GPUs: 4}}
		return e
	}
	submit := func(id string, hour time.Duration) workload.Event {
		e := event(workload.Submitted, hour)
		e.Job = workload.Job{ID: id, User: "u", Tenant: "t", Key: "k", Model: "m", GPUs: workload.GPUs(4)}
		return e
	}
	nodes := []workload.Event{node(workload.NodeUp, 1, "n1", 8), node(workload.NodeUp, 1, "n2", 8)}
	waits := append(slices.Clone(nodes), submit("j", 2), submit("other", 2))
	runs := append(slices.Clone(waits), placed(workload.Started, 3))
	rests := append(slices.Clone(runs), event(workload.Preempted, 4))
	resized := placed(workload.Resized, 5)
	resized.Job.GPUs = workload.GPUs(2)
	applied := event(workload.ConfigApplied, 5)
	applied.Job, applied.Revision = workload.Job{}, "1"
	beat := event(workload.Heartbeat, 5)
	beat.Job = workload.Job{}
	snapshot := func(first workload.Event) workload.Event {
		e := event(workload.TakenSnapshot, 5)
		first.ID, first.Time, e.Job = "", 0, workload.Job{}
		if first.Kind.OfJob() {
			first.Job.Submit = 2 * time.Hour
		}
		e.Active = []workload.Event{first, {Kind: workload.NodeUp, Node: "n3", NodeGPUs: 8}}
		return e
	}
	running := submit("j", 2)
	running.Kind, running.Placement = workload.Started, []workload.NodeShare{{Node: "n1", GPUs: 4}}
	return []eventCase{
		{"submitted", nodes, submit("j", 2)},
		{"started", waits, placed(workload.Started, 3)},
		{"preempted", runs, event(workload.Preempted, 4)},
		{"resumed", rests, placed(workload.Resumed, 5)},
		{"resized", runs, resized},
		{"finished", runs, event(workload.Finished, 5)},
		{"node up", nodes, node(workload.NodeUp, 2, "n3", 8)},
		{"node down", nodes, node(workload.NodeDown, 2, "n1", 8)},
		{"node drained", nodes, node(workload.NodeDrained, 2, "n1", 8)},
		{"applied", runs, applied},
		{"heartbeat", runs, beat},
		{"snapshot of a job that waits", waits, snapshot(submit("j", 2))},
		{"snapshot of a job that runs", runs, snapshot(running)},
		{"snapshot of a node", nodes, snapshot(node(workload.NodeUp, 1, "n1", 8))},
	}
}

// each calls f with every field and the events in which it is changed, until f returns true. Fields for which it never
// does must be the exceptions of a fold.
func each(t *testing.T, fold string, f func(x eventField, c *eventCase, e workload.Event) bool) {
	t.Helper()
	reasons := map[string]string{}
	for why, fields := range exceptions[fold] {
		for _, name := range strings.Fields(fields) {
			reasons[name] = why
		}
	}
	cases := eventCases()
	for _, x := range eventFields() {
		has := slices.ContainsFunc(cases, func(c eventCase) bool {
			e, ok := c.changed(x)
			return ok && f(x, &c, e)
		})
		if why, excepted := reasons[x.name]; !has && !excepted {
			t.Errorf("%s: it loses Event.%s: take the field in, or name it in exceptions", fold, x.name)
		} else if has && excepted {
			t.Errorf("%s: it has Event.%s, and an exception: %s", fold, x.name, why)
		}
		delete(reasons, x.name)
	}
	for name := range reasons {
		t.Errorf("%s: no event has a field %s", fold, name)
	}
}

// uses checks a fold whose state is given as text.
func uses(t *testing.T, fold string, state func(events []workload.Event) string) {
	t.Helper()
	plain := map[string]string{}
	each(t, fold, func(_ eventField, c *eventCase, e workload.Event) bool {
		if plain[c.name] == "" {
			plain[c.name] = state(append(slices.Clone(c.before), c.event))
		}
		return state(append(slices.Clone(c.before), e)) != plain[c.name]
	})
}

// keeps checks a conversion there and back.
func keeps(t *testing.T, fold string, convert func(e workload.Event) (workload.Event, bool)) {
	t.Helper()
	each(t, fold, func(x eventField, c *eventCase, e workload.Event) bool {
		got, ok := convert(e)
		at, want := c.target(&got), c.target(&e)
		if x.name == "ID" || x.name == "Time" || x.name == "Kind" {
			at, want = &got, &e
		}
		return ok && reflect.DeepEqual(x.get(*at), x.get(*want))
	})
}

// The store keeps every field that a scheduler reports.
func TestStoreKeepsEveryField(t *testing.T) {
	r, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	keeps(t, "store", func(e workload.Event) (got workload.Event, ok bool) {
		n++
		scheduler := fmt.Sprint("s", n)
		if err := r.AppendEvents(t.Context(), scheduler, []workload.Event{e}); err != nil {
			t.Fatal(err)
		}
		_, err := r.ReplayEvents(scheduler, func(_ string, e workload.Event) error {
			got, ok = e, true
			return nil
		})
		return got, ok && err == nil
	})
}

// written is an event as a line of JSON of the API.
func written(t *testing.T, e *workload.Event) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := trace.NewEventWriter(&out, time.Unix(0, 0).UTC(), false)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := w.Write(e); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Logs of events keep every field that traces need.
func TestTraceKeepsEveryField(t *testing.T) {
	keeps(t, "trace", func(e workload.Event) (workload.Event, bool) {
		var read []workload.Event
		opts := trace.Options{Format: "events", Events: func(e *workload.Event) { read = append(read, *e) }}
		_, _, err := trace.Read(t.Context(), bytes.NewReader(written(t, &e)), "log", opts)
		if len(read) != 1 {
			t.Fatalf("%v: %d events, %v", e.Kind, len(read), err) // a log without a whole job is an error, too
		}
		return read[0], true
	})
}

// The emulated scheduler reports every field that the simulator sets.
func TestAgentKeepsEveryField(t *testing.T) {
	w, err := workload.New("w", time.Unix(0, 0).UTC(), nil)
	if err != nil {
		t.Fatal(err)
	}
	keeps(t, "agent", func(e workload.Event) (got workload.Event, ok bool) {
		m := agent.Message(e, w)
		if m == nil {
			return got, false
		}
		got, fault := convert.EventFromProto(m)
		return got, fault == nil
	})
}

// Every field of the API's event is converted, and every field of an event has one of the API's.
func TestAPIHasEveryField(t *testing.T) {
	cases := eventCases()
	reached, used, all := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range cases {
		c := &cases[i]
		base := &pb.Event{}
		if err := protojson.Unmarshal(written(t, &c.event), base); err != nil {
			t.Fatal(err)
		}
		before, fault := convert.EventFromProto(base)
		if fault != nil {
			t.Fatalf("%s: %+v", c.name, fault)
		}
		for _, m := range changedMessages(base.ProtoReflect()) {
			all[m.field] = true
			m.apply()
			got, fault := convert.EventFromProto(base)
			m.undo()
			if fault != nil || reflect.DeepEqual(got, before) {
				continue
			}
			used[m.field] = true
			for _, x := range eventFields() {
				for _, pair := range [][2]*workload.Event{{&got, &before}, {c.target(&got), c.target(&before)}} {
					if !reflect.DeepEqual(x.get(*pair[0]), x.get(*pair[1])) {
						reached[x.name] = true
					}
				}
			}
		}
	}
	for name := range all {
		if !used[name] {
			t.Errorf("api: a change of %s has no effect", name)
		}
	}
	each(t, "api", func(x eventField, _ *eventCase, _ workload.Event) bool { return reached[x.name] })
}

// changedMessage is a change of a field in a message.
type changedMessage struct {
	field       string
	apply, undo func()
}

// changedMessages are changes of all fields of a message and of the messages in it.
func changedMessages(m protoreflect.Message) (out []changedMessage) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		had, old := m.Has(f), m.Get(f)
		if had && (f.IsList() || f.Message() != nil) {
			old = protoreflect.ValueOf(proto.Clone(m.Interface()).ProtoReflect().Get(f).Interface())
		}
		one := changedMessage{field: string(f.FullName()), undo: func() {
			if m.Clear(f); had {
				m.Set(f, old)
			}
		}}
		switch {
		case f.IsList():
			one.apply = func() {
				list := m.Mutable(f).List()
				if f.Message() != nil {
					list.Append(list.NewElement())
					return
				}
				list.Append(otherValue(f, protoreflect.Value{}))
			}
			if f.Message() != nil {
				if m.Get(f).List().Len() > 0 {
					out = append(out, changedMessages(m.Get(f).List().Get(0).Message())...)
				}
				continue
			}
		case f.Message() != nil && f.Message().ParentFile().Package() != "google.protobuf":
			if had {
				out = append(out, changedMessages(m.Get(f).Message())...)
				continue
			}
			empty := m.NewField(f).Message()
			for _, inner := range changedMessages(empty) {
				apply := func() { inner.apply(); m.Set(f, protoreflect.ValueOf(empty)) }
				out = append(out, changedMessage{inner.field, apply, func() { inner.undo(); m.Clear(f) }})
			}
			continue
		default:
			one.apply = func() { m.Set(f, otherValue(f, old)) }
		}
		out = append(out, one)
	}
	return out
}

// otherValue is a value of a field that another one is not.
func otherValue(f protoreflect.FieldDescriptor, old protoreflect.Value) protoreflect.Value {
	switch {
	case f.Message() != nil && f.Message().Name() == "Timestamp":
		return protoreflect.ValueOf(timestamppb.New(time.Unix(4*3600, 5)).ProtoReflect())
	case f.Message() != nil:
		return protoreflect.ValueOf(durationpb.New(7 * time.Minute).ProtoReflect())
	case f.Kind() == protoreflect.StringKind:
		return protoreflect.ValueOf("other")
	case f.Kind() == protoreflect.BoolKind:
		return protoreflect.ValueOf(!old.Bool())
	case f.Kind() == protoreflect.EnumKind:
		return protoreflect.ValueOf(protoreflect.EnumNumber(2))
	case f.Kind() == protoreflect.Int64Kind:
		return protoreflect.ValueOf(int64(3))
	}
	return protoreflect.ValueOf(int32(3))
}

// The ledger uses every field that states and histories need.
func TestLedgerUsesEveryField(t *testing.T) {
	uses(t, "ledger", func(events []workload.Event) string {
		l := workload.NewLedger(workload.Uniform(3, 8))
		for _, e := range events {
			l.Apply(e)
		}
		return dump(l)
	})
}

// The scanner of patterns uses every field that rules and findings need.
func TestScannerUsesEveryField(t *testing.T) {
	testshared.Full(t)
	uses(t, "scanner", func(events []workload.Event) string {
		s, err := patterns.New(patterns.Options{Zero: time.Unix(0, 0).UTC(), Cluster: workload.Uniform(3, 8),
			Nodes: []string{"n1", "n2", "n3"}})
		f := feed.New(s, patterns.Lateness(0))
		for _, e := range events {
			err = cmp.Or(err, f.Put(patterns.Record{Event: &e}))
		}
		if err = cmp.Or(err, f.Advance(5*time.Hour+45*time.Minute)); err != nil {
			t.Fatal(err)
		}
		return dump(s)
	})
}

// dump writes a value with all that it points to; equal values have equal texts.
func dump(v any) string {
	var out strings.Builder
	seen := map[uintptr]int{}
	var write func(v reflect.Value)
	write = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				out.WriteString("nil ")
				return
			}
			if n, ok := seen[v.Pointer()]; ok {
				fmt.Fprintf(&out, "#%d ", n)
				return
			}
			seen[v.Pointer()] = len(seen)
			write(v.Elem())
		case reflect.Interface:
			if !v.IsNil() {
				write(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Field(i); !f.IsZero() {
					fmt.Fprintf(&out, "%s:{", v.Type().Field(i).Name)
					write(f)
					out.WriteString("} ")
				}
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				write(v.Index(i))
				out.WriteString(", ")
			}
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			for _, k := range keys {
				fmt.Fprintf(&out, "%v=", k)
				write(v.MapIndex(k))
				out.WriteString("; ")
			}
		case reflect.Func, reflect.Chan:
		default:
			fmt.Fprintf(&out, "%v ", v)
		}
	}
	write(reflect.ValueOf(v))
	return out.String()
}
