package energy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"pgregory.net/rapid"
)

// daily is a series with a price for each hour from zero on.
func daily(t testing.TB, prices ...float64) *Series {
	t.Helper()
	text := "ts,price_per_mwh\n"
	for h, p := range prices {
		text += fmt.Sprintf("%s,%g\n", zero.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), p)
	}
	s, err := ReadPrices(strings.NewReader(text), "p.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func marks(t testing.TB, texts ...string) (out Marks) {
	t.Helper()
	for _, text := range texts {
		m, err := ParseMark(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// TestDeferral: a job waits for the first of the cheapest hours before its limit, one that is not marked
// for none, and at flat prices none waits.
func TestDeferral(t *testing.T) {
	d, err := NewDeferral(marks(t, "tenant=batch"), daily(t, 50, 90, 80, 20, 30, -5, 70, 70), zero)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		submit, limit time.Duration
		share         float64
		want          time.Duration
	}{
		{0, 4 * time.Hour, .25, 3 * time.Hour},
		{0, 6 * time.Hour, .1, 5 * time.Hour},
		{0, 6 * time.Hour, .5, 3 * time.Hour},
		{0, 4 * time.Hour, .5, 0},
		{90 * time.Minute, time.Hour, .5, 2 * time.Hour},
		{90 * time.Minute, 10 * time.Minute, .5, 90 * time.Minute},
		{3 * time.Hour, time.Hour, .1, 3 * time.Hour},
		{6 * time.Hour, 100 * time.Hour, .1, 6 * time.Hour},
		{time.Hour, 6 * time.Hour, 1, time.Hour},
	} {
		j := &workload.Job{ID: "a", Tenant: "batch", Submit: c.submit}
		if got := d.Until(j, c.share, c.limit); got != c.want {
			t.Errorf("submitted at %v, %v of %v: %v, want %v", c.submit, c.share, c.limit, got, c.want)
		}
		if j.Deadline = 1000 * time.Hour; d.Until(j, c.share, c.limit) != c.submit {
			t.Error("a job with a deadline is deferred")
		}
		j.Deadline = 0
		if j.Tenant = "other"; d.Until(j, c.share, c.limit) != c.submit {
			t.Error("a job that is not marked is deferred")
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		prices := rapid.SliceOfN(rapid.Float64Range(-50, 50), 1, 30).Draw(r, "prices")
		j := &workload.Job{ID: "a", Submit: time.Duration(rapid.IntRange(0, 1e6).Draw(r, "seconds")) * time.Second}
		share := rapid.Float64Range(0, 1).Draw(r, "share")
		limit := time.Duration(rapid.IntRange(1, 1e6).Draw(r, "limit")) * time.Second
		series := daily(t, prices...)
		d, err := NewDeferral(marks(t, "1"), series, zero)
		if err != nil {
			r.Fatal(err)
		}
		at := d.Until(j, share, limit)
		if at < j.Submit || at >= j.Submit+limit || series.At(zero.Add(at)) > series.At(zero.Add(j.Submit)) {
			r.Fatalf("from %v to %v within %v", j.Submit, at, limit)
		}
		for i := range prices {
			prices[i] = prices[0]
		}
		if d.series = daily(t, prices...); d.Until(j, share, limit) != j.Submit {
			r.Fatal("deferred at flat prices")
		}
		if d.series = nil; d.Until(j, share, limit) != j.Submit {
			r.Fatal("deferred at a constant price")
		}
	})
}

// TestMarks: columns, shares of recurring jobs, and texts that are none.
func TestMarks(t *testing.T) {
	n := 0
	m := marks(t, "0.3")
	for i := range 10000 {
		j := &workload.Job{ID: fmt.Sprint(i), Key: fmt.Sprint("k", i/2)}
		if m[0].names(j) {
			n++
		}
	}
	if n < 2700 || n > 3300 || n%2 != 0 {
		t.Errorf("%d of 10000 jobs are marked, in pairs", n)
	}
	j := &workload.Job{User: "u", Tenant: "t", Model: "m", Key: "k",
		Requested: workload.Request{Partition: "p"}.Shared()}
	for _, text := range []string{"user=u", "tenant=t", "model=m", "key=k", "partition=p"} {
		if m := marks(t, text, text+"x"); !m[0].names(j) || m[1].names(j) {
			t.Errorf("%s", text)
		}
	}
	for _, text := range []string{"", "0", "1.5", "NaN", "user=", "gpu=v100", "=x", "tenant"} {
		if _, err := ParseMark(text); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewDeferral(nil, nil, zero); err == nil {
		t.Error("a deferral of no jobs")
	}
	a, _ := NewDeferral(marks(t, "0.3"), daily(t, 1, 2), zero)
	b, _ := NewDeferral(marks(t, "0.4"), daily(t, 1, 2), zero)
	c, _ := NewDeferral(marks(t, "0.3"), daily(t, 1, 3), zero)
	if a.Digest() == b.Digest() || a.Digest() == c.Digest() {
		t.Error("digests are alike")
	}
}
