package server

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
)

func TestFilterSchedulers(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	for i, id := range []string{"a", "b", "c"} {
		made := f.create(id, []pb.SchedulerSpec_Mode{pb.SchedulerSpec_RECOMMEND, pb.SchedulerSpec_AUTO}[i%2])
		if id == "c" {
			continue
		}
		if _, err := f.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
			Scheduler:  &pb.Scheduler{Name: made.GetName(), Labels: map[string]string{"team": id, "rank": "1"}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(filter, token string, size int32) (string, string, error) {
		got, err := f.tuning.ListSchedulers(ctx, &pb.ListSchedulersRequest{Filter: filter, PageToken: token,
			PageSize: size})
		var ids []string
		for _, s := range got.GetSchedulers() {
			ids = append(ids, strings.TrimPrefix(s.GetName(), convert.SchedulersPrefix))
		}
		return strings.Join(ids, " "), got.GetNextPageToken(), err
	}
	for filter, want := range map[string]string{
		"":                                "a b c",
		"spec.mode = AUTO":                "b",
		"spec.mode != AUTO":               "a c",
		`labels.team = "a"`:               "a",
		"labels.team:*":                   "a b",
		"labels.rank=1 AND labels.team=b": "b",
		"labels.none:*":                   "",
		"state = ACTIVE AND spec.scheduler_type = test": "a b c",
	} {
		if got, _, err := list(filter, "", 0); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", filter, got, err, want)
		}
	}
	first, token, err := list("labels.rank = 1", "", 1)
	if err != nil || first != "a" || token == "" {
		t.Fatalf("first page: %q, %q, %v", first, token, err)
	}
	if second, end, err := list("labels.rank = 1", token, 1); err != nil || second != "b" || end != "" {
		t.Errorf("second page: %q, %q, %v", second, end, err)
	}
	refuses(t, codes.InvalidArgument, "page_token", func() error {
		_, _, err := list("state = ACTIVE", token,
			1)
		return err
	})
	for _, bad := range []string{"state", "state = ", "no = 1", "labels = x", "spec = x", "spec.parameters = x",
		"state = NO", "create_time > yesterday",
		"display_name.x = 1", "state = ACTIVE AND ", "state = ACTIVE state = PAUSED", "state:ACTIVE",
		"state = ACTIVE OR state = PAUSED",
		fmt.Sprint("state = ", strings.Repeat("x", 1000))} {
		refuses(t, codes.InvalidArgument, "filter", func() error { _, _, err := list(bad, "", 0); return err })
	}
}
