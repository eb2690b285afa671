package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A damaged meta page costs no revision, and is reported.
func TestDamagedMetaPage(t *testing.T) {
	ctx, sp := context.Background(), testSpace(t)
	const today = "events-20240301.db"
	for _, file := range []string{configFile, today} {
		for page := range int64(2) {
			t.Run(fmt.Sprint(file, page), func(t *testing.T) {
				dir := t.TempDir()
				r := openOn(t, dir, damageDay)
				for revision := range int64(3) {
					if err := r.Commit(ctx, change(t, sp, 1+revision)); err != nil {
						t.Fatal(err)
					}
				}
				appendOne(t, r, "s", "1")
				appendOne(t, r, "s", "2")
				_ = r.Close()
				f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("nonsense"), page*int64(os.Getpagesize())+pageHeader); err != nil {
					t.Fatal(err)
				}
				_ = f.Close()

				r = openOn(t, dir, damageDay)
				saved, _, found, err := r.Load()
				if err != nil || len(saved) != 1 || len(saved[0].Configurations) != 3 {
					t.Fatal(saved, err)
				}
				if _, more := replayed(t, r); len(more) > 0 {
					found = append(found, more...)
				}
				if len(found) != 1 || found[0].File != file || !errors.Is(found[0].Err, ErrCorrupt) {
					t.Errorf("%+v", found)
				}
			})
		}
	}
}
