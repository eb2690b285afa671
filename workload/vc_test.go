package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseVC(t *testing.T) {
	for s, want := range map[string]VC{"a=8": {Tenant: "a", GPUs: 8}, "x=y=0": {Tenant: "x=y"},
		"b=16:2.5": {Tenant: "b", GPUs: 16, Weight: 2.5}, "=4": {GPUs: 4}} {
		if got, err := ParseVC(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", "a=", "a=-1", "a=1.5", "a=1:", "a=1:0", "a=1:NaN", "a=1:-2", "a=99999999999"} {
		if got, err := ParseVC(s); err == nil {
			t.Errorf("%q: %+v and no error", s, got)
		}
	}
}

func TestAutoVCs(t *testing.T) {
	job := func(tenant string, seconds, gpus int) Job {
		return Job{Tenant: tenant, Duration: time.Duration(seconds) * time.Second, GPUs: GPUs(gpus)}
	}
	for _, x := range []struct {
		gpus int
		jobs []Job
		want string
	}{
		// 60, 30 and 10 GPU-seconds.
		{10, []Job{job("b", 30, 1), job("a", 30, 2), job("c", 10, 1)}, "a=6 b=3 c=1"},
		// 4 of a and 3 of b are 7; 5.71 and 4.29 of ten.
		{10, []Job{job("a", 4, 1), job("b", 3, 1)}, "a=6 b=4"},
		// c's widest job needs 4: a and b divide 6 as 2 to 1.
		{10, []Job{job("a", 60, 1), job("b", 30, 1), job("c", 1, 4)}, "a=4 b=2 c=4"},
		// The widest jobs together need 12 of 10: by share alone.
		{10, []Job{job("a", 9, 6), job("b", 1, 6)}, "a=9 b=1"},
		{10, nil, ""},
	} {
		got := ""
		for _, v := range AutoVCs(x.jobs, x.gpus) {
			got += fmt.Sprintf(" %s=%d", v.Tenant, v.GPUs)
		}
		if got != "" {
			got = got[1:]
		}
		if got != x.want {
			t.Errorf("%+v on %d GPUs: %s, want %s", x.jobs, x.gpus, got, x.want)
		}
	}
}

// TestAutoVCsAddUp: all GPUs are in a quota, and whatever can hold the widest
// jobs does.
func TestAutoVCsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 100).Draw(t, "GPUs")
		jobs := make([]Job, rapid.IntRange(1, 20).Draw(t, "jobs"))
		widest := map[string]int{}
		for i := range jobs {
			jobs[i] = Job{Tenant: rapid.StringMatching(`[a-h]`).Draw(t, "tenant"),
				Duration: time.Duration(rapid.Int64Range(1, int64(MaxDuration)).Draw(t, "duration")),
				GPUs:     GPUs(rapid.IntRange(1, gpus).Draw(t, "width"))}
			widest[jobs[i].Tenant] = max(widest[jobs[i].Tenant], jobs[i].GPUs.Whole())
		}
		need := 0
		for _, w := range widest {
			need += w
		}
		sum := 0
		for _, v := range AutoVCs(jobs, gpus) {
			sum += v.GPUs
			if v.GPUs < 0 || need <= gpus && v.GPUs < widest[v.Tenant] {
				t.Fatalf("%s gets %d GPUs, its widest job asks for %d", v.Tenant, v.GPUs, widest[v.Tenant])
			}
		}
		if sum != gpus {
			t.Fatalf("the quotas are %d of %d GPUs", sum, gpus)
		}
	})
}

func TestVCRoundTrip(t *testing.T) {
	const text = `{"groups":[{"nodes":1,"gpus_per_node":8}],"vcs":[{"tenant":"a","gpus":4,"cohort":"all","borrow":0,` +
		`"lend":4},{"tenant":"b","gpus":4,"cohort":"all"},{"tenant":"c","gpus":0}]}`
	c, err := ParseCluster([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := c.VCs[0], c.VCs[1]; a.Borrow != BoundOf(0) || a.Lend != BoundOf(4) || b.Borrow != (Bound{}) {
		t.Errorf("%+v", c.VCs)
	}
	if again, err := json.Marshal(c); err != nil || string(again) != text {
		t.Errorf("%s, %v; want %s", again, err, text)
	}
	for field, fault := range map[string]string{`"borrow":4`: "borrow: there is no cohort", `"lend":1`: "lend: there is no",
		`"cohort":"x","borrow":-1`: "borrow: -1 is negative", `"cohort":"x","lend":-1`: "lend: -1 is negative",
		`"cohort":"x","lend":9`: "lend: 9 is more than the quota of 4", `"lend":"1"`: `"1" is not a number of GPUs`} {
		_, err := ParseCluster([]byte(`{"nodes":1,"gpus_per_node":8,"vcs":[{"tenant":"a","gpus":4,` + field + `}]}`))
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", field, err, fault)
		}
	}
	var none Bound
	if err := json.Unmarshal([]byte("null"), &none); err != nil || none.Set {
		t.Errorf("null is %+v, %v", none, err)
	}
}
