package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// download brings a file from an address into a part file, and goes on with a
// part file that is there. A second file beside it remembers which version of the
// file the part is of.
type download struct {
	url  string
	part string
	size int64 // 0 if unknown
	show func(string, ...any)
	// tries without progress until the download fails, pause before the second,
	// twice as long before each further one, and how long no byte may come.
	// Defaults: 5, a second, a minute.
	tries        int
	pause, stall time.Duration
}

// maxDownload bounds what a server may send where the size is not known.
const maxDownload = 64 << 30

// refused is an answer that another try does not change.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func (d *download) tag() string { return d.part + ".tag" }

// run downloads what is missing, trying again where the connection breaks.
func (d *download) run(ctx context.Context) error {
	tries, pause := d.tries, d.pause
	if tries == 0 {
		tries = 5
	}
	if pause == 0 {
		pause = time.Second
	}
	wait := pause
	for failed := 0; ; {
		before := d.have()
		err := d.attempt(ctx)
		if err == nil {
			return nil
		}
		if errors.As(err, new(refused)) || ctx.Err() != nil {
			return err
		}
		if d.have() > before { // it moves
			failed, wait = 0, pause
		}
		if failed++; failed >= tries {
			return fmt.Errorf("%w (tried %d times)", err, tries)
		}
		d.show("%v; trying again", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (d *download) have() int64 {
	info, err := os.Stat(d.part)
	if err != nil {
		return 0
	}
	return info.Size()
}

// attempt asks for what is missing, once.
func (d *download) attempt(ctx context.Context) error {
	have := d.have()
	if d.size > 0 && have == d.size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := d.stall
	if stall == 0 {
		stall = time.Minute
	}
	quiet := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no byte came for %v", stall)) })
	defer quiet.Stop()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return refused{err}
	}
	req.Header.Set("User-Agent", "autosched")
	req.Header.Set("Accept-Encoding", "identity") // the bytes as they are, so that they can be counted
	tag, _ := os.ReadFile(d.tag())
	if have > 0 && len(tag) > 0 && (d.size == 0 || have < d.size) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", string(tag))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return causeOr(ctx, err)
	}
	defer resp.Body.Close()
	flags := os.O_WRONLY | os.O_CREATE
	total := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		from, all, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || from != have {
			os.Remove(d.tag()) // begin anew next time
			return fmt.Errorf("%s: asked to go on at byte %d, the server answers %q", d.url, have, resp.Header.Get("Content-Range"))
		}
		flags |= os.O_APPEND
		total = all
	case resp.StatusCode == http.StatusOK:
		flags |= os.O_TRUNC
		have = 0
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if _, all, ok := contentRange(resp.Header.Get("Content-Range")); ok && all == have {
			return nil // all of it is there
		}
		os.Remove(d.tag())
		return fmt.Errorf("%s: the part that was downloaded is not of this file", d.url)
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s: the server answers %s", d.url, resp.Status)
	default:
		return refused{fmt.Errorf("%s: the server answers %s", d.url, resp.Status)}
	}
	most := int64(maxDownload)
	if d.size > 0 {
		if total >= 0 && total != d.size {
			return refused{fmt.Errorf("%s: it has %d bytes, expected are %d", d.url, total, d.size)}
		}
		most = d.size
	}
	return d.receive(ctx, resp, flags, have, total, most, func() { quiet.Reset(stall) })
}

// receive writes the body to the part file.
func (d *download) receive(ctx context.Context, resp *http.Response, flags int, have, total, most int64, alive func()) (err error) {
	f, err := os.OpenFile(d.part, flags, 0o644)
	if err != nil {
		return refused{err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if flags&os.O_TRUNC != 0 {
		// A weak tag does not promise the same bytes.
		tag := resp.Header.Get("ETag")
		if tag == "" || strings.HasPrefix(tag, "W/") {
			tag = resp.Header.Get("Last-Modified")
		}
		if err := os.WriteFile(d.tag(), []byte(tag), 0o644); err != nil {
			return refused{err}
		}
	}
	begun, from := time.Now(), have
	buf := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			alive()
			if have += int64(n); have > most {
				return refused{fmt.Errorf("%s: it is larger than %d bytes", d.url, most)}
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return refused{err}
			}
			rate := float64(have-from) / 1e6 / max(time.Since(begun).Seconds(), .001)
			if total > 0 {
				d.show("downloading: %d %% of %d MB, %.1f MB/s", 100*have/total, total/1e6, rate)
			} else {
				d.show("downloading: %d MB, %.1f MB/s", have/1e6, rate)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return causeOr(ctx, err)
		}
	}
	if total < 0 {
		total = d.size
	}
	if total > 0 && have != total {
		return fmt.Errorf("%s: %d of %d bytes came", d.url, have, total)
	}
	return nil
}

// causeOr tells why a request was cancelled rather than that it was.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// contentRange reads "bytes 5-9/10" and "bytes */10".
func contentRange(s string) (from, all int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, cut := strings.Cut(s, "/")
	all, err := strconv.ParseInt(size, 10, 64)
	if !ok || !cut || err != nil {
		return 0, 0, false
	}
	if span == "*" {
		return 0, all, true
	}
	first, _, _ := strings.Cut(span, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	return from, all, err == nil
}

// explain adds what to do about an error.
func (d *download) explain(err error) error {
	if errors.As(err, new(refused)) {
		return fmt.Errorf("%w; --url names another address", err)
	}
	return fmt.Errorf("%w; %s", err, d.resume())
}

// resume tells how a download goes on.
func (d *download) resume() string {
	if n := d.have(); n > 0 {
		return fmt.Sprintf("%.1f MB are in %s: the same command goes on from there", float64(n)/1e6, d.part)
	}
	return "nothing has been downloaded yet"
}

// lfsPointer is what GitHub's raw addresses give instead of a file in Git LFS.
var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// check computes the digest of what was downloaded and compares it. A file that is
// not what it should be is removed.
func (d *download) check(ctx context.Context, want string) (digest string, err error) {
	f, err := os.Open(d.part)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, len(lfsPointer))
	if n, _ := f.ReadAt(head, 0); bytes.Equal(head[:n], lfsPointer) {
		return "", errors.Join(fmt.Errorf("%s gives a Git LFS pointer, not the file: GitHub has the file itself at media.githubusercontent.com/media", d.url), d.remove())
	}
	h := sha256.New()
	if _, err := io.Copy(h, &watched{ctx: ctx, r: f, show: func(n int64) { d.show("checking: %d MB", n/1e6) }}); err != nil {
		return "", err
	}
	digest = hex.EncodeToString(h.Sum(nil))
	if want != "" && digest != want {
		return "", errors.Join(fmt.Errorf("%s: its SHA-256 is %s, expected is %s; it has been deleted", d.url, digest, want), d.remove())
	}
	return digest, nil
}

// remove deletes the part file and what belongs to it.
func (d *download) remove() error {
	err := os.Remove(d.part)
	if e := os.Remove(d.tag()); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
