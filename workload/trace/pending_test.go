package trace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPending: jobs that wait when Slurm is listed are kept, and run as long as is typical of their name, their user or
// all, at most their limit. The waiting part of an array is a job each, as far as its throttle lets; held jobs are left
// out.
func TestPending(t *testing.T) {
	const head = "JobID|JobIDRaw|User|Account|JobName|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|ReqTRES\n"
	ran := func(id, user, name, seconds string) string {
		return id + "|" + id + "|" + user + "|a|" + name + "|COMPLETED|1000|1000|1000|9000|" + seconds +
			"|600|gres/gpu=1|\n"
	}
	waits := func(id, raw, user, name, eligible, limit string) string {
		return id + "|" + raw + "|" + user + "|a|" + name + "|PENDING|2000|" + eligible +
			"|Unknown|Unknown|0|" + limit + "||gres/gpu=2\n"
	}
	text := head + ran("1", "ann", "train", "100") + ran("2", "ann", "train", "300") + ran("3", "ann", "train", "200") +
		ran("4", "ann", "test", "40") + ran("5", "bob", "x", "5000") + ran("6", "bob", "x", "5000") +
		"20_1|21|eve|a|sweep|RUNNING|1500|1500|1600|Unknown|77|10|gres/gpu=2|\n" +
		waits("7", "7", "ann", "train", "2000", "600") + waits("8", "8", "ann", "new", "2500", "600") +
		waits("9", "9", "eve", "new", "2000", "UNLIMITED") + waits("10", "10", "bob", "x", "2000", "5") +
		waits("11", "11", "ann", "train", "Unknown", "600") + waits("20_[2-4,6-9:2%3]", "20", "eve", "sweep", "2000", "1") +
		waits("40_[...", "40", "eve", "sweep", "2000", "1") +
		waits("30_[1,5]", "30", "eve", "sweep", "2000", "1")
	w, report, err := Read(t.Context(), strings.NewReader(text), "sacct.psv", Options{RequeueRestarts: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range w.Jobs() {
		if j.Status.String() == "pending" {
			got = append(got, j.ID+" "+w.Clock(j.Submit).Format("05")+" "+j.Duration.String())
		}
	}
	want := []string{"7 20 3m20s", "9 20 5m0s", "10 20 5m0s", "20_2 20 1m0s", "20_3 20 1m0s", "30_1 20 1m0s",
		"30_5 20 1m0s", "8 40 3m20s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if report.Pending != len(want) || report.Running != 1 || report.LeftOut != 5 || report.Unsorted != 0 ||
		report.Rows+report.Expanded != report.Jobs+report.LeftOut {
		t.Errorf("%+v", report)
	}
	reasons := []ReasonCount{{"it may not start yet: it is held, or waits for another job or a time", 1},
		{throttled, 3}, {cutOff, 1}}
	if diff := cmp.Diff(reasons, report.LeftOutReasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var csv bytes.Buffer
	if err := WriteCSV(&csv, w); err != nil {
		t.Fatal(err)
	}
	again, _, err := Read(t.Context(), &csv, "trace.csv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest() != w.Digest() {
		t.Error("the project's CSV does not keep them")
	}
}

// TestPendingAlone: where no job has ended and a job has no limit, nothing says how long it would run: it is left out,
// by a check of the file, too.
func TestPendingAlone(t *testing.T) {
	const text = "JobIDRaw|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|TimelimitRaw\n" +
		"1|RUNNING|1000|1000|Unknown|600|gres/gpu=8||60\n" +
		"2|PENDING|1100|Unknown|Unknown|0||gres/gpu=8|60\n" +
		"3|PENDING|1200|Unknown|Unknown|0||gres/gpu=8|UNLIMITED\n"
	path := filepath.Join(t.TempDir(), "sacct.psv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w, read, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checked, err := Check(t.Context(), path, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Report{read, checked} {
		if r.Jobs != 2 || r.Running != 1 || r.Pending != 1 || r.LeftOut != 1 {
			t.Errorf("%+v", r)
		}
	}
	if w.Ended() != 0 {
		t.Errorf("%d jobs have ended", w.Ended())
	}
}

// TestPendingArrays: a task is a job once, and arrays do not exceed the limit of rows.
func TestPendingArrays(t *testing.T) {
	const text = "JobIDRaw|JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|TimelimitRaw\n" +
		"1|1_[1-3,2,3-4]|PENDING|1100|Unknown|Unknown|0||gres/gpu=8|60\n"
	w, _, err := Read(t.Context(), strings.NewReader(text), "sacct.psv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range w.Jobs() {
		ids = append(ids, j.ID)
	}
	if diff := cmp.Diff([]string{"1_1", "1_2", "1_3", "1_4"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, err := Read(t.Context(), strings.NewReader(text), "sacct.psv", Options{MaxRows: 3}); !errors.Is(err,
		ErrLimit) {
		t.Errorf("four tasks where three rows are allowed: %v", err)
	}
}

// TestPendingArraysCounted: the rest of an array is counted, up to any size.
func TestPendingArraysCounted(t *testing.T) {
	for list, want := range map[string][]ReasonCount{
		"0-4000000":                                    {{oneTooFar, 3_900_001}},
		"0-149999:2,150000":                            nil,
		"0-99999,100000-10:2":                          nil, // an empty range
		"0-199999%7":                                   {{throttled, 199_993}},
		"0-99999,100001,100003-100006:2%200000":        {{oneTooFar, 3}},
		"9223372036854775807,0-9223372036854775807,4":  {{cutOff, 1}},
		"1-2:9223372036854775807,5,0-99999999999,,...": {{cutOff, 1}},
	} {
		text := "JobIDRaw|JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|TimelimitRaw\n" +
			"1|1_[" + list + "]|PENDING|1100|Unknown|Unknown|0||gres/gpu=8|60\n"
		_, r, err := Read(t.Context(), strings.NewReader(text), "sacct.psv", Options{})
		if err != nil {
			t.Fatal(list, err)
		}
		if diff := cmp.Diff(want, r.LeftOutReasons); diff != "" || r.Rows+r.Expanded != r.Jobs+r.LeftOut {
			t.Errorf("%s: %d jobs, expanded %d, left out %d (-want +got):\n%s", list, r.Jobs, r.Expanded, r.LeftOut,
				diff)
		}
	}
}
