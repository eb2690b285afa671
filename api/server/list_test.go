package server

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"pgregory.net/rapid"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// TestPagesAreTheList: whatever the filter, the order and the size of pages, the pages are the whole list.
func TestPagesAreTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*pb.Configuration
		for i := range rapid.Int64Range(0, 30).Draw(t, "n") {
			all = append(all, &pb.Configuration{Revision: 30 - i,
				State: pb.Configuration_State(rapid.SampledFrom([]int32{1, 3, 4}).Draw(t, "state"))})
		}
		l := rpc.List[*pb.Configuration]{
			Some: func(after rpc.Token, n int) ([]*pb.Configuration, error) {
				from := 0
				if after.Revision > 0 {
					from = int(31 - after.Revision)
				}
				return all[from:min(from+n, len(all))], nil
			},
			Place: func(c *pb.Configuration) rpc.Token { return rpc.Token{Revision: c.GetRevision()} }}
		req := &pb.ListConfigurationsRequest{PageSize: int32(rapid.IntRange(1, 12).Draw(t, "size")),
			Filter:  rapid.SampledFrom([]string{"", "state = PROPOSED", "state != PROPOSED"}).Draw(t, "filter"),
			OrderBy: rapid.SampledFrom([]string{"", "state", "state desc, revision"}).Draw(t, "order")}
		want := slices.Clone(all)
		if req.GetFilter() != "" {
			want = slices.DeleteFunc(want, func(c *pb.Configuration) bool {
				return (c.GetState() == pb.Configuration_PROPOSED) != (req.GetFilter() == "state = PROPOSED")
			})
		}
		name := func(c *pb.Configuration) string { return c.GetState().String() }
		switch req.GetOrderBy() {
		case "state":
			slices.SortStableFunc(want, func(a, b *pb.Configuration) int { return strings.Compare(name(a), name(b)) })
		case "state desc, revision":
			slices.Reverse(want)
			slices.SortStableFunc(want, func(a, b *pb.Configuration) int { return strings.Compare(name(b), name(a)) })
		}
		var got []*pb.Configuration
		for {
			page, next, err := l.Page(rpc.Pager("key"), req)
			if err != nil || len(page) > int(req.GetPageSize()) {
				t.Fatal(len(page), err)
			}
			got = append(got, page...)
			if req.PageToken = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestOrderSchedulers(t *testing.T) {
	f := serve(t, nil)
	for i, id := range []string{"a", "b", "c"} {
		f.create(id, []pb.SchedulerSpec_Mode{pb.SchedulerSpec_RECOMMEND, pb.SchedulerSpec_AUTO}[i%2])
	}
	ask := func(order, token string, size int32) (string, string, error) {
		got, err := f.tuning.ListSchedulers(background(t), &pb.ListSchedulersRequest{OrderBy: order, PageToken: token,
			PageSize: size})
		var ids []string
		for _, s := range got.GetSchedulers() {
			ids = append(ids, strings.TrimPrefix(s.GetName(), convert.SchedulersPrefix))
		}
		return strings.Join(ids, " "), got.GetNextPageToken(), err
	}
	if got, _, err := ask("spec.mode, name desc", "", 0); err != nil || got != "b c a" {
		t.Errorf("%q, %v", got, err)
	}
	first, next, err := ask("name desc", "", 2)
	if err != nil || first != "c b" || next == "" {
		t.Errorf("%q, %q, %v", first, next, err)
	}
	if got, end, err := ask("name desc", next, 2); err != nil || got != "a" || end != "" {
		t.Errorf("%q, %q, %v", got, end, err)
	}
	gone := f.server.pages.Next(&pb.ListSchedulersRequest{OrderBy: "name desc"}, rpc.Token{After: "purged"})
	for order, token := range map[string]string{"name": next, "name desc": gone} {
		refuses(t, codes.InvalidArgument, "page_token", func() error { _, _, err := ask(order, token, 2); return err })
	}
	for _, bad := range []string{"name descending", "spec", "labels", "no", "name,", strings.Repeat("x", 1001)} {
		refuses(t, codes.InvalidArgument, "order_by", func() error { _, _, err := ask(bad, "", 0); return err })
	}
}

// TestEveryListIsFiltered: a list without filter and order is one that says so here.
func TestEveryListIsFiltered(t *testing.T) {
	without := map[protoreflect.Name]string{
		"ListTelemetryRequest":     "it has fields of its own for what is asked for, and an order by time",
		"ListMetricsRequest":       "it has fields of its own for what is asked for, and an order by time",
		"ListEvaluatorsRequest":    "it has no pages",
		"ListOptimalTrialsRequest": "it has no pages",
	}
	for _, file := range []protoreflect.FileDescriptor{pb.File_autosched_v1_scheduler_proto,
		pb.File_autosched_v1_configuration_proto, pb.File_autosched_v1_operation_proto,
		pb.File_autosched_v1_round_proto, pb.File_autosched_v1_study_proto, pb.File_autosched_v1_audit_proto,
		pb.File_autosched_v1_telemetry_proto, pb.File_autosched_v1_metric_proto} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			if name := string(m.Name()); !strings.HasPrefix(name, "List") || !strings.HasSuffix(name, "Request") {
				continue
			}
			has := m.Fields().ByName("filter") != nil &&
				(m.Fields().ByName("order_by") != nil || m.Name() == "ListAuditRecordsRequest") // of its length
			if has == (without[m.Name()] != "") {
				t.Errorf("%s: filter and order_by are %v", m.Name(), has)
			}
		}
	}
}

// TestPageTokens: a token is good as it was given, for the request that it was given for, whatever page that asks for.
func TestPageTokens(t *testing.T) {
	lists := 0
	key := rpc.Pager("key")
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		req, ok := mt.New().Interface().(rpc.ListRequest)
		if !ok {
			return true
		}
		lists++
		m := req.ProtoReflect()
		of := m.Descriptor().Fields()
		want := rpc.Token{After: "a", Revision: 7}
		text := key.Next(req, want)
		m.Set(of.ByName("page_size"), protoreflect.ValueOfInt32(3))
		m.Set(of.ByName("page_token"), protoreflect.ValueOfString(text))
		if got, err := key.After(req); err != nil || got != want {
			t.Errorf("%s: %+v %v", m.Descriptor().Name(), got, err)
		}
		if got, err := rpc.Pager("other").After(req); err == nil {
			t.Errorf("%s: a token of another service is %+v", m.Descriptor().Name(), got)
		}
		full := mt.New()
		fill(full)
		for i := range of.Len() {
			field := of.Get(i)
			if field.Name() == "page_size" || field.Name() == "page_token" {
				continue
			}
			if m.Set(field, full.Get(field)); !full.Has(field) {
				t.Fatalf("%s has no other value", field.FullName())
			}
			if got, err := key.After(req); err == nil {
				t.Errorf("with another %s the token is %+v", field.FullName(), got)
			}
			m.Clear(field)
		}
		for i := range text {
			other := []byte(text)
			if other[i]++; i == len(text)-1 {
				other = other[:i] // the last character has bits of no meaning
			}
			m.Set(of.ByName("page_token"), protoreflect.ValueOfString(string(other)))
			if got, err := key.After(req); err == nil {
				t.Errorf("%s: with another character %d the token is %+v", m.Descriptor().Name(), i, got)
			}
		}
		return true
	})
	if lists < 11 {
		t.Errorf("only %d lists were checked", lists)
	}
}

// TestPageTokensOutliveRestarts: the secret of a store is there again, and another store has another.
func TestPageTokensOutliveRestarts(t *testing.T) {
	dir := t.TempDir()
	start := func(dir string) *fixture {
		return serveWith(t, dir, controller.Options{}, Options{Builtins: []controller.Builtin{testBuiltin}})
	}
	f := start(dir)
	f.create("a", pb.SchedulerSpec_RECOMMEND)
	f.create("b", pb.SchedulerSpec_RECOMMEND)
	first, err := f.tuning.ListSchedulers(background(t), &pb.ListSchedulersRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	next := &pb.ListSchedulersRequest{PageToken: first.GetNextPageToken()}
	f = start(dir)
	got, err := f.tuning.ListSchedulers(background(t), next)
	if err != nil || len(got.GetSchedulers()) != 1 || got.GetSchedulers()[0].GetName() != "schedulers/b" {
		t.Errorf("%v %v", got, err)
	}
	f = start(t.TempDir())
	refuses(t, codes.InvalidArgument, "page_token", func() error {
		_, err := f.tuning.ListSchedulers(background(t), next)
		return err
	})
}
