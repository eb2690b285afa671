package findings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxNotices  = 1000 // that wait
	maxAttempts = 10
	firstWait   = time.Second
	longestWait = 2 * time.Minute
	postTimeout = 10 * time.Second
)

var webhookDesc = prometheus.NewDesc("autosched_findings_webhook_total",
	"Notices of findings since the service started, by result: sent, refused by the receiver, given up after repeats, "+
		"or dropped for want of room; repeated counts posts that are tried again.", []string{"result"}, nil)

// Webhook posts notices as JSON to a URL, one after the other; of a finding in order. One whose post fails is put
// behind the others, and posted ten times in all. The waits after posts that fail in a row grow. It is safe for
// concurrent use.
type Webhook struct {
	url    string
	client *http.Client
	log    *slog.Logger
	// wait waits before a repetition, unless the context ends.
	wait func(context.Context, time.Duration) error
	wake chan struct{} // has room for one

	mu     sync.Mutex
	line   []posting
	counts map[string]int64
}

// posting is a notice that was posted some times.
type posting struct {
	*Notice
	attempts int
}

// CheckURL checks the address of a webhook.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("is not a URL") // the error would repeat a secret
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("is not an http or https URL with a host")
	}
	return nil
}

// NewWebhook returns a webhook. The URL may be secret: it is not logged.
func NewWebhook(address string, log *slog.Logger) (*Webhook, error) {
	if err := CheckURL(address); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	return newWebhook(address, log, func(ctx context.Context, d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), nil
}

func newWebhook(address string, log *slog.Logger, wait func(context.Context, time.Duration) error) *Webhook {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// A connection is not shared with the rest of the process, so that Run ends it.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Timeout: postTimeout, Transport: transport,
		// A redirected POST would become a GET, of a page for logins perhaps.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Webhook{url: address, client: client, log: log,
		wait: wait, wake: make(chan struct{}, 1), counts: map[string]int64{}}
}

// Notify has a notice posted. It does not wait: if there is no room, the notice is dropped and counted.
func (h *Webhook) Notify(n *Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.line) >= maxNotices {
		h.counts["dropped"]++
		return
	}
	h.line = append(h.line, posting{Notice: n})
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *Webhook) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// Run posts notices until the context ends. Notices that wait then are lost.
func (h *Webhook) Run(ctx context.Context) error {
	defer h.client.CloseIdleConnections()
	for pause := firstWait; ctx.Err() == nil; {
		n, ok := h.next()
		if !ok {
			select {
			case <-ctx.Done():
			case <-h.wake:
			}
			continue
		}
		again, answered := h.deliver(ctx, &n)
		if answered {
			pause = firstWait
			continue
		}
		if again {
			h.later(n)
		}
		_ = h.wait(ctx, pause)
		pause = min(2*pause, longestWait)
	}
	return nil
}

// next takes the first notice of the line.
func (h *Webhook) next() (n posting, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.line) == 0 {
		return n, false
	}
	n = h.line[0]
	h.line = h.line[1:]
	return n, true
}

// later puts a notice at the end of the line, with those of its finding behind it.
func (h *Webhook) later(n posting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := []posting{n}
	h.line = slices.DeleteFunc(h.line, func(o posting) bool {
		is := o.Scheduler == n.Scheduler && o.ID == n.ID
		if is {
			same = append(same, o)
		}
		return is
	})
	h.line = append(h.line, same...)
}

// deliver posts a notice, and reports whether it is to be posted again and whether the receiver answered it.
func (h *Webhook) deliver(ctx context.Context, n *posting) (again, answered bool) {
	body, err := json.Marshal(n.Notice)
	if err != nil {
		h.log.Error("a notice of a finding has no JSON", "finding", n.ID, "err", err)
		return false, true
	}
	n.attempts++
	again, err = h.post(ctx, n.Notice, body)
	switch {
	case err == nil:
		answered = true
		h.count("sent")
	case ctx.Err() != nil:
	case !again:
		answered = true
		h.count("refused")
		h.log.Error("the webhook refuses a notice", "scheduler", n.Scheduler, "finding", n.ID, "err", err)
	case n.attempts == maxAttempts:
		again = false
		h.count("given_up")
		h.log.Error("the webhook does not take a notice", "scheduler", n.Scheduler, "finding", n.ID,
			"attempts", n.attempts, "err", err)
	default:
		h.count("repeated")
	}
	return again, answered
}

// post posts once. Again says that it may succeed later.
func (h *Webhook) post(ctx context.Context, n *Notice, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is not one")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", n.Scheduler+"/"+n.ID+"/"+n.Event)
	got, err := h.client.Do(req)
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) {
			err = with.Err // without the URL
		}
		return true, err
	}
	defer got.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(got.Body, 64<<10)) // for the next post
	switch code := got.StatusCode; {
	case code/100 == 2:
		return false, nil
	case code/100 == 5, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return true, errors.New(got.Status)
	}
	return false, errors.New(got.Status)
}

// Describe implements prometheus.Collector.
func (h *Webhook) Describe(out chan<- *prometheus.Desc) { out <- webhookDesc }

// Collect implements prometheus.Collector.
func (h *Webhook) Collect(out chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range []string{"sent", "repeated", "refused", "given_up", "dropped"} {
		out <- prometheus.MustNewConstMetric(webhookDesc, prometheus.CounterValue, float64(h.counts[what]), what)
	}
}
