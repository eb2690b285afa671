package findings

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/patterns"
)

func notice(name string) *Notice {
	return &Notice{Event: "opened", Scheduler: "prod", Finding: Finding{ID: name,
		Finding: patterns.Finding{Rule: "r", Entity: patterns.Entity{Kind: "job", Name: name}, Opened: zero}}}
}

// TestWebhook: a notice that fails comes again behind the others (N16), with growing waits while posts fail in a row,
// and one that is refused does not; notices of a finding come in order.
func TestWebhook(t *testing.T) {
	posts := make(chan string, 100)
	codes := map[string][]int{"a": {503, 429, 200, 200}, "b": {400}, "c": {204},
		"d": slices.Repeat([]int{500}, maxAttempts), "moved": {302}} // not sent (N16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var n Notice
		if err := json.Unmarshal(body, &n); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", body, err)
		}
		w.Header().Set("Location", "/login")
		w.WriteHeader(codes[n.ID][0]) // one request at a time
		codes[n.ID] = codes[n.ID][1:]
		key := r.Header.Get("Idempotency-Key")
		if key != "prod/"+n.ID+"/"+n.Event || n.Entity.Name != n.ID {
			t.Errorf("key %s of %s/%s of %v", key, n.ID, n.Event, n.Entity)
		}
		posts <- strings.TrimSuffix(strings.TrimPrefix(key, "prod/"), "/opened")
	}))
	defer server.Close()
	waits := make(chan time.Duration, 100)
	var log bytes.Buffer
	h := newWebhook(server.URL+"/secret", slog.New(slog.NewTextHandler(&log, nil)),
		func(_ context.Context, d time.Duration) error {
			waits <- d
			return nil
		})
	for _, name := range []string{"a", "b", "moved", "c", "d"} {
		h.Notify(notice(name))
	}
	closed := notice("a")
	closed.Event = "closed"
	h.Notify(closed)
	stop := background(h.Run)
	for _, want := range strings.Fields("a b moved c d a d a a/closed" + strings.Repeat(" d", maxAttempts-2)) {
		select {
		case got := <-posts:
			if got != want {
				t.Fatalf("%v, want %s", got, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("no post of %s", want)
		}
	}
	count := func(what string) int64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.counts[what]
	}
	for until := time.Now().Add(2 * time.Minute); count("given_up") == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	stop()
	want := map[string]int64{"sent": 3, "repeated": 2 + maxAttempts - 1, "refused": 2, "given_up": 1}
	for what, n := range want {
		if got := count(what); got != n {
			t.Errorf("%s: %d, want %d", what, got, n)
		}
	}
	var got []time.Duration
	for range 6 {
		got = append(got, <-waits)
	}
	if want := []time.Duration{1, 1, 2, 4, 1, 2}; !slices.EqualFunc(got, want, func(a, b time.Duration) bool {
		return a == b*firstWait
	}) {
		t.Errorf("waits of %v, want %v s", got, want)
	}
	if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "400") {
		t.Errorf("log: %s", log.String())
	}
}

// TestWebhookAway: without a receiver only the webhook waits: notices that do not fit are counted, and it ends.
func TestWebhookAway(t *testing.T) {
	blocked := make(chan struct{})
	h := newWebhook("http://127.0.0.1:1/secret", nil, func(ctx context.Context, _ time.Duration) error {
		close(blocked)
		<-ctx.Done()
		return ctx.Err()
	})
	stop := background(h.Run)
	h.Notify(notice("a"))
	<-blocked
	for range maxNotices + 2 { // beside a
		h.Notify(notice("b"))
	}
	stop()
	if h.counts["dropped"] != 3 || h.counts["sent"] != 0 {
		t.Errorf("%v", h.counts)
	}
}

func TestCheckURL(t *testing.T) {
	for text, good := range map[string]bool{"https://hooks.example.com/x?y": true, "http://h:1": true, "": false,
		"ftp://h": false, "http://": false, "hooks.example.com": false, "http://h:x": false} {
		if err := CheckURL(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
