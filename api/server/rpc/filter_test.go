package rpc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestEveryKindIsCompared: each comparison of each kind of field.
func TestEveryKindIsCompared(t *testing.T) {
	at := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	c := &pb.Configuration{Revision: 7, State: pb.Configuration_PUBLISHED, Reason: `found "it"`,
		CreateTime: timestamppb.New(at), Evidence: &pb.TuningEvidence{Seed: 1 << 63, ControllableRatio: 1.25},
		Parameters: map[string]*structpb.Value{"n": structpb.NewNumberValue(4), "on": structpb.NewBoolValue(true),
			"kind": structpb.NewStringValue("las")}}
	for filter, want := range map[string]bool{
		"revision = 7":                               true,
		"revision >= 8":                              false,
		"revision < 10":                              true,
		"state = PUBLISHED AND revision != 6":        true,
		"state != PUBLISHED":                         false,
		`create_time > "2026-01-31T08:59:59Z"`:       true,
		`create_time <= "2026-01-31T09:00:00+01:00"`: false,
		"update_time:*":                              false,
		`update_time < "2030-01-01T00:00:00Z"`:       false,
		"evidence.seed = 9223372036854775808":        true,
		"evidence.controllable_ratio > 1.2":          true,
		"evidence.scheduler_time:*":                  false,
		"acknowledgement.state = APPLIED":            false,
		"acknowledgement.state != APPLIED":           true,
		"parameters.n > 3":                           true,
		"parameters.n = las":                         false,
		"parameters.on = true":                       true,
		"parameters.kind = las":                      true,
		"parameters.none:*":                          false,
		"parameters.none != 3":                       true,
		"evidence.details.trials > 1":                false,
		`reason = "a AND b"`:                         false,
		`reason != "a AND b" AND revision = 7`:       true,
		"scheduler_revision = 0":                     true,
		"scheduler_revision:*":                       false,
		"epoch.counter < 1":                          false,
	} {
		terms, err := parseFilter(filter, c.ProtoReflect().Descriptor(), nil)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got := !slices.ContainsFunc(terms, func(one term) bool { return !one.holds(c) }); got != want {
			t.Errorf("%s: %v", filter, got)
		}
	}
	terms, err := parseFilter("duration >= 1m30s", (&pb.Round{}).ProtoReflect().Descriptor(), nil)
	long := &pb.Round{Duration: durationpb.New(2 * time.Minute)}
	if err != nil || !terms[0].holds(long) || terms[0].holds(&pb.Round{}) {
		t.Error("a duration is not compared", err)
	}
	if _, err := parseFilter("evidence:*", c.ProtoReflect().Descriptor(), nil); err == nil ||
		!strings.Contains(err.Error(), "want a field of it") {
		t.Error("a message is compared", err)
	}
	if _, err := parseFilter("candidates:*", (&pb.Round{}).ProtoReflect().Descriptor(), nil); err == nil {
		t.Error("a repeated field is compared")
	}
	if _, err := parseFilter("best_trial.reason:*", (&pb.Study{}).ProtoReflect().Descriptor(),
		[]string{"best_trial"}); err == nil {
		t.Error("a field that the list leaves out is compared")
	}
}

// FuzzFilter: no text of a filter or an order panics, nor does what it compares.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{"revision >= 7 AND state = PUBLISHED", "parameters.a:*", `reason = "x"`,
		"evidence.controllable_ratio < NaN", "create_time desc, name"} {
		f.Add(text)
	}
	elements := []proto.Message{&pb.Configuration{}, &pb.Configuration{Revision: 1,
		Parameters: map[string]*structpb.Value{"a": nil, "b": structpb.NewNullValue()}}}
	of := elements[0].ProtoReflect().Descriptor()
	f.Fuzz(func(t *testing.T, text string) {
		if terms, err := parseFilter(text, of, nil); err == nil {
			for _, one := range terms {
				for _, x := range elements {
					one.holds(x)
				}
			}
		}
		if keys, err := parseOrder(text, of, nil); err == nil && byKeys(keys, elements[0], elements[0]) != 0 {
			t.Fatalf("%q: an element is not equal to itself", text)
		}
	})
}
