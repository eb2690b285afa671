package trace

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseZone(t *testing.T) {
	for _, name := range []string{"", "local", "Local", "Mars/Olympus", "../etc/passwd"} {
		if _, err := ParseZone(name); err == nil || !strings.Contains(err.Error(), "Europe/Berlin") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Every instant is among the instants at which the clock showed its time.
func TestLocalClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := ParseZone(rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
			"Asia/Kolkata", "Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "UTC"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		c := localClock{zone: zone}
		for _, at := range rapid.SliceOfN(rapid.Int64Range(0, 4e9), 1, 20).Draw(t, "at") {
			local := at + offsetOf(time.Unix(at, 0).In(zone))
			first, second, n := c.instants(local)
			if first != at && (n != 2 || second != at) || n == 2 && first >= second {
				t.Fatalf("%v: %d instants, %d and %d, not %d", zone, n, first, second, at)
			}
		}
	})
}

// The output of sacct on a machine in Berlin. On 2025-10-26 the clock was put back from
// 03:00 to 02:00, on 2026-03-29 forward from 02:00 to 03:00.
func TestZoneOfSacct(t *testing.T) {
	zone, err := ParseZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const header = "JobIDRaw|State|Submit|Eligible|Start|End|AllocTRES\n"
	for name, c := range map[string]struct {
		row, submit string
		wait, run   time.Duration
		reason      string
	}{
		"summer": {"2025-07-01T12:00:00|2025-07-01T12:00:00|2025-07-01T12:00:05|2025-07-01T13:00:05",
			"2025-07-01T10:00:00Z", 5 * time.Second, time.Hour, ""},
		"over the night": {"2025-10-26T01:30:00|2025-10-26T01:30:00|2025-10-26T01:30:00|2025-10-26T03:30:00",
			"2025-10-25T23:30:00Z", 0, 3 * time.Hour, ""},
		"an hour shown twice is its first": {
			"2025-10-26T02:10:00|2025-10-26T02:20:00|2025-10-26T02:30:00|2025-10-26T04:30:00",
			"2025-10-26T00:20:00Z", 10 * time.Minute, 3 * time.Hour, ""},
		"unless it came after a time of the row": {
			"2025-10-26T02:50:00|2025-10-26T02:50:00|2025-10-26T02:10:00|2025-10-26T02:30:00",
			"2025-10-26T00:50:00Z", 20 * time.Minute, 20 * time.Minute, ""},
		"an hour never shown": {"2026-03-29T02:10:00|2026-03-29T02:10:00|2026-03-29T03:10:00|2026-03-29T03:30:00",
			"", 0, 0, skipped},
		"epoch and zones are instants": {"1751364000|Unknown|2025-07-01T12:00:05+02:00|2025-07-01T11:00:05Z",
			"2025-07-01T10:00:00Z", 5 * time.Second, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, r, err := Read(t.Context(), strings.NewReader(header+"7|COMPLETED|"+c.row+"|gres/gpu=1\n"), "t",
				Options{Zone: zone})
			if c.reason != "" {
				if r.Rejected != 1 || r.First[0].Field != "Submit" || r.First[0].Reason != c.reason {
					t.Fatalf("%v, %+v", err, r)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			j := w.Jobs()[0]
			got := w.Clock(j.Submit).Format(time.RFC3339)
			if got != c.submit || j.Wait != c.wait || j.Duration != c.run {
				t.Errorf("submitted %s, waited %v, ran %v", got, j.Wait, j.Duration)
			}
			if (r.Zone == "") != strings.HasPrefix(name, "epoch") {
				t.Errorf("zone %q", r.Zone)
			}
		})
	}
}

// TestParseWallClock compares clocks with package time's, of texts with a character changed or cut off among them, of
// which package time reads some more.
func TestParseWallClock(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 4))
	layouts := []string{"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02T15:04:05.999999999-07:00",
		"2006-01-02 15:04:05", "2006-01-02T15:04:05.999"}
	read := 0
	for i := range 20_000 {
		layout := layouts[i%len(layouts)]
		at := time.Unix(r.Int64N(5e9), r.Int64N(1e9)).In(time.FixedZone("", 60*(r.IntN(1680)-840)))
		text := []byte(at.Format(layout))
		change := r.IntN(6)
		switch change {
		case 0:
			text[r.IntN(len(text))] = "0129-+:. TZx"[r.IntN(12)]
		case 1:
			text = text[:r.IntN(len(text)+1)]
		}
		w, ok := parseWallClock(text)
		var want time.Time
		err := errors.New("no layout")
		for _, layout := range layouts {
			for _, blank := range []string{"T", " "} {
				if parsed, failed := time.Parse(strings.Replace(layout[:11], layout[10:11], blank, 1)+layout[11:],
					string(text)); failed == nil {
					want, err = parsed, nil
				}
			}
		}
		if !ok && change > 1 || ok && (err != nil || w.seconds != want.Unix() || w.nanos != want.Nanosecond()) {
			t.Fatalf("%s: %+v, %v; package time has %v, %v", text, w, ok, want, err)
		}
		if _, err := time.Parse(time.RFC3339, string(text)); ok && w.rfc3339 != (err == nil) {
			t.Fatalf("%s: %+v, and RFC 3339 %v", text, w, err)
		}
		if ok {
			read++
		}
	}
	if read < 10_000 {
		t.Errorf("%d texts are clocks", read)
	}
}
