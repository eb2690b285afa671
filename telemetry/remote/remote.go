// Package remote reads telemetry from a Prometheus server by its HTTP API.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Prometheus is a server, or another with its API.
type Prometheus struct {
	URL    *url.URL // without /api/v1
	Header http.Header
	Client *http.Client
	// Timeout bounds a request. Default: two minutes.
	Timeout time.Duration
	// Options has the site's names. The node and the times are the server's.
	Options telemetry.Options
	// Matchers are label matchers with commas between, such as cluster="a".
	Matchers string
}

// Range is the instants at which the server is asked for values: every Step from From on, before To.
type Range struct {
	From, To time.Time
	Step     time.Duration
}

const (
	// chunkSteps is how many values of a series one request asks for; servers answer up to 11,000.
	chunkSteps = 120
	// maxAnswer bounds an answer.
	maxAnswer = 1 << 30
	// tries is how often a request is made that fails for a reason that may pass.
	tries      = 4
	maxFailure = 4 << 10 // bytes of an answer that is an error
	firstPause = time.Second
	usualWait  = 2 * time.Minute
)

// ErrServer is for answers that are errors.
var ErrServer = errors.New("the Prometheus server does not answer the question")

// errTooMuch is for questions that the server finds too large.
var errTooMuch = errors.New("too much at once")

// Names returns the metrics of the server that are read, in a range.
func (p *Prometheus) Names(ctx context.Context, r Range) (known, others []string, err error) {
	q := url.Values{"start": {stamp(r.From)}, "end": {stamp(r.To)}}
	if p.Matchers != "" {
		q.Set("match[]", "{"+p.Matchers+"}")
	}
	body, err := p.ask(ctx, "label/__name__/values", q)
	if err != nil {
		return nil, nil, err
	}
	var answer struct{ Data []string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("%w: the names of metrics are no JSON of Prometheus: %w", ErrServer, err)
	}
	for _, name := range answer.Data {
		if p.Options.Names.Reads(name) {
			known = append(known, name)
		} else {
			others = append(others, name)
		}
	}
	return known, others, nil
}

// Fetch gives the samples of a range out in order of time, chunk by chunk; done is called after each chunk with its
// end. The samples of a chunk are given out at once.
func (p *Prometheus) Fetch(ctx context.Context, names []string, r Range, each func(*telemetry.GPUSample) error,
	done func(until time.Time, s *telemetry.Stats) error) error {
	if p.Options.Xids == nil {
		p.Options.Xids = map[telemetry.GPU]int{}
	}
	for from := r.From; from.Before(r.To); {
		to := from.Add(chunkSteps * r.Step)
		if to.After(r.To) {
			to = r.To
		}
		s, err := p.chunk(ctx, names, Range{from, to, r.Step}, each)
		if err != nil {
			return err
		}
		if err := done(to, s); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// chunk asks for all metrics of a part of the range.
func (p *Prometheus) chunk(ctx context.Context, names []string, r Range,
	each func(*telemetry.GPUSample) error) (*telemetry.Stats, error) {
	var answers []io.Reader
	for _, name := range names {
		bodies, err := p.series(ctx, name, r)
		if err != nil {
			return nil, err
		}
		for _, b := range bodies {
			answers = append(answers, bytes.NewReader(b))
		}
	}
	opts := p.Options
	opts.Format = "prometheus-json"
	return telemetry.Read(ctx, io.MultiReader(answers...), p.URL.Redacted(), opts, each)
}

// series asks for a metric, in halves where it is too much at once.
func (p *Prometheus) series(ctx context.Context, name string, r Range) ([][]byte, error) {
	matchers := "__name__=" + strconv.Quote(name)
	if p.Matchers != "" {
		matchers += "," + p.Matchers
	}
	body, err := p.ask(ctx, "query_range", url.Values{"query": {"{" + matchers + "}"}, "start": {stamp(r.From)},
		"end": {stamp(r.To.Add(-time.Millisecond))}, "step": {strconv.FormatFloat(r.Step.Seconds(), 'f', -1, 64)}})
	steps := int((r.To.Sub(r.From) + r.Step - 1) / r.Step)
	if !errors.Is(err, errTooMuch) || steps < 2 {
		return [][]byte{body}, err
	}
	half := r.From.Add(time.Duration(steps/2) * r.Step)
	var all [][]byte
	for _, part := range []Range{{r.From, half, r.Step}, {half, r.To, r.Step}} {
		bodies, err := p.series(ctx, name, part)
		if err != nil {
			return nil, err
		}
		all = append(all, bodies...)
	}
	return all, nil
}

// stamp is an instant as the API takes it.
func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', -1, 64) }

// ask makes a request until it is answered, or fails for good.
func (p *Prometheus) ask(ctx context.Context, path string, q url.Values) ([]byte, error) {
	pause := firstPause
	for try := 1; ; try++ {
		body, again, err := p.once(ctx, path, q)
		if err == nil || !again || try == tries || ctx.Err() != nil {
			return body, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
}

func (p *Prometheus) once(ctx context.Context, path string, q url.Values) (_ []byte, again bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, usualWait))
	defer cancel()
	at := p.URL.JoinPath("api/v1", path)
	at.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, false, err
	}
	for name, values := range p.Header {
		request.Header[name] = values
	}
	answer, err := p.Client.Do(request)
	if err != nil {
		return nil, true, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		switch {
		case err != nil:
			return nil, true, err
		case len(body) > maxAnswer:
			return nil, false, fmt.Errorf("%w: %w: an answer of more than %d bytes", ErrServer, errTooMuch, maxAnswer)
		}
		return body, false, nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxFailure))
	var failure struct{ Error string }
	if json.Unmarshal(text, &failure) != nil || failure.Error == "" {
		failure.Error = strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
	}
	err = fmt.Errorf("%w: %s: %s", ErrServer, answer.Status, failure.Error)
	switch code := answer.StatusCode; {
	case strings.Contains(failure.Error, "too many samples") || strings.Contains(failure.Error, "maximum resolution") ||
		strings.Contains(failure.Error, "timed out") || code == http.StatusRequestEntityTooLarge:
		return nil, false, fmt.Errorf("%w: %w", errTooMuch, err)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, false, fmt.Errorf("%w: --header-file names what it asks for, such as Authorization: Bearer TOKEN",
			err)
	default:
		return nil, code >= 500 || code == http.StatusTooManyRequests, err
	}
}
