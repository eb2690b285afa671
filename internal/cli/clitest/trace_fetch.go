package clitest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

const JobLog = `[{"status":"Pass","vc":"v","jobid":"a","submitted_time":"2017-10-07 01:00:00","user":"u","attempts":[{"start_time":"2017-10-07 01:00:10","end_time":"2017-10-07 01:00:20","detail":[{"ip":"m","gpus":["gpu0"]}]}]},
{"status":"Killed","vc":"v","jobid":"b","submitted_time":"2017-10-08 01:00:00","user":"u","attempts":[]}]`

func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ServeFile answers as a file server does, changed by bend.
func ServeFile(t *testing.T, file []byte,
	bend func(n int32, w http.ResponseWriter, r *http.Request) (done bool)) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		w.Header().Set("ETag", `"`+Digest(file)[:8]+`"`)
		if bend != nil && bend(n, w, r) {
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/trace-data.tar.gz", requests
}
