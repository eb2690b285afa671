package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// framework returns the places of the bytes of a file that are not keys and values of leaves, by kind of page.
func framework(data []byte) map[string][]int {
	size := os.Getpagesize()
	out := map[string][]int{}
	add := func(kind string, from, n int) {
		for i := range n {
			out[kind] = append(out[kind], from+i)
		}
	}
	for at := 0; at+size <= len(data); at += size {
		count := int(binary.NativeEndian.Uint16(data[at+10:]))
		switch binary.NativeEndian.Uint16(data[at+8:]) {
		case branchPage:
			add("branch header", at, pageHeader)
			add("branch", at+pageHeader, min(size-pageHeader, count*(elementSize+eventKeySize)))
		case leafPage:
			add("leaf header", at, pageHeader)
			add("leaf", at+pageHeader, min(size-pageHeader, count*elementSize))
		case freePage:
			add("free list header", at, pageHeader)
			add("free list", at+pageHeader, min(size-pageHeader, count*8))
		default:
			if at < 2*size {
				add("meta", at, pageHeader+metaSize+8)
			}
		}
	}
	return out
}

// TestFlippedBits changes one bit of a segment, stores more events and reads all: an event that is not there is never
// missing without a damage.
func TestFlippedBits(t *testing.T) {
	const name, commits, batch, more = "events-20240301.db", 60, 40, 4
	ctx, from := context.Background(), t.TempDir()
	send := func(r *Store, commit int) error {
		events := make([]workload.Event, batch)
		for i := range events {
			at := commit*batch + (i*7+commit)%batch
			events[i] = event(fmt.Sprint(at), time.Duration(at/3)*time.Second)
		}
		return r.AppendEvents(ctx, []string{"s", "t"}[commit%2], events)
	}
	r := openOn(t, from, damageDay)
	for commit := range commits {
		if err := send(r, commit); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.Close()
	if err := r.checkFiles(); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(from, configFile))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	places := framework(whole)
	kinds := slices.Sorted(maps.Keys(places))
	testshared.Full(t)
	tally := testshared.NewTally(t, "AUTOSCHED_DAMAGED", 70)
	named, refused := map[string]int{}, map[string]int{}
	for i := tally.Done(); tally.Left() > 0; i++ {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		tally.Add(1)
		kind := kinds[i%len(kinds)]
		at, bit := places[kind][rng.IntN(len(places[kind]))], rng.IntN(8)
		dir := t.TempDir()
		data := append([]byte(nil), whole...)
		data[at] ^= 1 << bit
		for name, text := range map[string][]byte{configFile: config, name: data} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := openOn(t, dir, damageDay)
		if err := r.checkFile(name, true); err != nil {
			refused[kind]++
		}
		for commit := commits; commit < commits+more; commit++ {
			if err := send(r, commit); err != nil {
				t.Fatalf("%s, bit %d of byte %d: %v", kind, bit, at, err)
			}
		}
		_ = r.Close()
		r = openOn(t, dir, damageDay)
		ids, damage := replayed(t, r)
		_ = r.Close()
		if len(damage) > 0 {
			named[kind]++
			continue
		}
		seen := map[string]bool{}
		for _, id := range ids {
			seen[id] = true
		}
		if len(ids) != (commits+more)*batch || len(seen) != len(ids) {
			t.Errorf("%s, bit %d of byte %d: %d events, %d of them different ones, of %d, and no damage", kind, bit, at,
				len(ids), len(seen), (commits+more)*batch)
		}
	}
	t.Log("refused by the check of pages:", refused, "named by the replay:", named)
}

// TestFreeListIsMended: a list of free pages that names used ones is not used, and nothing is written over.
func TestFreeListIsMended(t *testing.T) {
	const revisions = 30
	ctx, sp, from := context.Background(), testSpace(t), t.TempDir()
	r := openOn(t, from, damageDay)
	for revision := int64(1); revision <= revisions; revision++ {
		if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.Close()
	whole, err := os.ReadFile(filepath.Join(from, configFile))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	list := framework(whole)["free list"]
	used := uint64(0) // a page that a branch or leaf is on
	for at := 2 * page; used == 0; at += page {
		id := uint64(at / page)
		if binary.NativeEndian.Uint16(whole[at+8:]) == leafPage &&
			!slices.Contains(freePages(whole, list), id) {
			used = id
		}
	}
	dir := t.TempDir()
	binary.NativeEndian.PutUint64(whole[list[0]:], used)
	if err := os.WriteFile(filepath.Join(dir, configFile), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	r = openOn(t, dir, damageDay)
	if err := r.checkFile(configFile, true); err != nil {
		t.Fatal(err)
	}
	for revision := int64(revisions + 1); revision <= revisions+5; revision++ {
		if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
			t.Fatal(err)
		}
	}
	saved, _, damage, err := r.Load()
	if err != nil || len(damage) > 0 || len(saved) != 1 || len(saved[0].Configurations) != revisions+5 {
		t.Fatalf("%+v, %v, %v", saved, damage, err)
	}
	if err := r.checkFile(configFile, true); err != nil {
		t.Error(err)
	}
}

// freePages returns the pages of the list at places of a file.
func freePages(data []byte, places []int) (out []uint64) {
	for i := 0; i < len(places); i += 8 {
		out = append(out, binary.NativeEndian.Uint64(data[places[i]:]))
	}
	return out
}

// TestDamagedReplicaIsRefused: a replica with a changed bit is not opened, unless it is on a free page.
func TestDamagedReplicaIsRefused(t *testing.T) {
	const name = "events-20240301.db"
	from := t.TempDir()
	open := func(dir string) (*Store, error) { return Open(dir, Options{Replica: true}) }
	r, err := open(from)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(r *Store, from, to uint64) error {
		for i := from; i < to; i++ {
			op := EventsOp("s", []workload.Event{event(fmt.Sprint(i), time.Duration(i))})
			if _, err := r.Apply(Entry{Place{Sequence: i + 1, Chain: i}, damageDay, []*Op{op}}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(apply(r, 0, 20), r.Close()); err != nil {
		t.Fatal(err)
	}
	refused := 0
	files := map[string][]byte{}
	for _, name := range []string{configFile, name} {
		if files[name], err = os.ReadFile(filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		rng := rand.New(rand.NewPCG(3, uint64(i)))
		kinds := framework(files[name])
		kinds["record"] = nil
		for at := range files[name] { // the ids of events and what follows them
			if i := bytes.Index(files[name][at:min(len(files[name]), at+8)], []byte("tenant")); i == 0 {
				kinds["record"] = append(kinds["record"], at)
			}
		}
		kind := slices.Sorted(maps.Keys(kinds))[i%len(kinds)]
		if len(kinds[kind]) == 0 {
			continue
		}
		dir, at := t.TempDir(), kinds[kind][rng.IntN(len(kinds[kind]))]
		for of, data := range files {
			if of == name {
				data = append([]byte(nil), data...)
				data[at] ^= 1 << rng.IntN(8)
			}
			if err := os.WriteFile(filepath.Join(dir, of), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := open(dir)
		if errors.Is(err, ErrCorrupt) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := apply(r, 20, 40); err != nil { // the bit is on a page that is free
			t.Fatal(err)
		}
		ids, damage := replayed(t, r)
		if err := r.Close(); err != nil || len(damage) > 0 || len(ids) != 40 {
			t.Errorf("%s, byte %d: %v, %v, %v", kind, at, ids, damage, err)
		}
	}
	older := append([]byte(nil), files[name]...) // both meta pages are of one commit
	copy(older[os.Getpagesize()+pageHeader:][:metaSize+8], older[pageHeader:])
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, configFile), files[configFile], 0o600),
		os.WriteFile(filepath.Join(dir, name), older, 0o600)); err != nil {
		t.Fatal(err)
	}
	if r, err := open(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file without its last commit: %v", err)
		_ = r.Close()
	}
	if refused < 20 {
		t.Errorf("%d replicas are refused", refused)
	}
}
