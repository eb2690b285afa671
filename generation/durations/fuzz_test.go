package durations

import (
	"bytes"
	"testing"
)

// FuzzReadModel: a model that is read is written as it was.
func FuzzReadModel(f *testing.F) {
	f.Add([]byte("{\"format\":\"" + headerFormat + "\"}\ntree\nversion=v3\n"))
	f.Add([]byte("tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\nfeature_names=gpus\n" +
		"tree_sizes=1\n\nTree=0\nnum_leaves=1\nnum_cat=0\nleaf_value=1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadModel(bytes.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadModel(&out); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
