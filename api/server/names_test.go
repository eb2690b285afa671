package server

import (
	"testing"

	"github.com/autosched/autosched/api/convert"
)

func TestConfigurationsHaveOneName(t *testing.T) {
	if id, revision, err := convert.ParseConfiguration("name", convert.ConfigurationName("s", 12)); id != "s" ||
		revision != 12 ||
		err != nil {
		t.Error(id, revision, err)
	}
	for _, rev := range []string{"+001", "+1", "001", "0", "-1", "", " 1", "1/", "1.0", "0x1", "1_0",
		"9223372036854775808"} {
		if id, revision, err := convert.ParseConfiguration("name", "schedulers/s/configurations/"+rev); err == nil {
			t.Errorf("%q is revision %d of %s", rev, revision, id)
		}
	}
}
