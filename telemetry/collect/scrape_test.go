package collect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/autosched/autosched/telemetry"
)

func TestScraper(t *testing.T) {
	var xid atomic.Int32
	var mode atomic.Value
	mode.Store("")
	xid.Store(31)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if mode.Load() == "cut" {
			w.Header().Set("Content-Length", "4096")
		}
		switch mode.Load() {
		case "away":
			http.Error(w, "no", http.StatusServiceUnavailable)
		case "empty":
		case "bad":
			fmt.Fprint(w, "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"\n")
		default:
			fmt.Fprint(w, "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",Hostname=\"a\"} 100\n")
			fmt.Fprintf(w, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",Hostname=\"a\"} %d\n", xid.Load())
			fmt.Fprint(w, "DCGM_FI_PROF_SM_ACTIVE{gpu=\"1\"} 0.25\nDCGM_FI_DEV_POWER_USAGE{gpu=\"2\",Hostname=\"b\\nc\"} 1\n")
		}
	}))
	defer exporter.Close()
	var n notes
	s := NewScraper([]string{exporter.URL, "http://127.0.0.1:1/metrics"}, Options{Node: "n", Notify: n.add})
	defer s.Close(t.Context())
	round := func(want string) {
		t.Helper()
		if got := brief(s.Round(t.Context(), at)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	mode.Store("cut")
	round("")
	mode.Store("")
	round("a:0 100W n:1") // the error may be old
	if x := s.out[1]; x.SMActive != .25 || x.Time != at || s.out[0].Has(telemetry.Xid) {
		t.Errorf("%+v", s.out)
	}
	round("a:0 100W n:1")
	xid.Store(79)
	round("a:0 100W xid79 n:1")
	round("a:0 100W n:1")
	mode.Store("cut") // the next whole answer reports the error
	xid.Store(94)
	round("")
	mode.Store("")
	round("a:0 100W xid94 n:1")
	xid.Store(79)
	round("a:0 100W xid79 n:1")
	for _, m := range []string{"away", "empty", "bad"} {
		mode.Store(m)
		round("")
	}
	mode.Store("")
	round("a:0 100W n:1")
	for i, want := range []string{"cut short", "connection refused", " answers", "cut short", " answers", "503", "has no GPU",
		"1 lines rejected", " answers"} {
		if i >= len(n.all) || !strings.Contains(n.all[i], want) {
			t.Errorf("%q lacks %q", n.all, want)
		}
	}
	if len(n.all) != 9 || slices.Contains(n.all, "") {
		t.Errorf("%q", n.all)
	}
}
