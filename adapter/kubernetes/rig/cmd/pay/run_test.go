package main

import (
	"testing"

	"github.com/autosched/autosched/replay"
)

// TestBestPreset: an answer that compares no preset is an error.
func TestBestPreset(t *testing.T) {
	all := []replay.VerdictCandidate{{Origin: "search", Gain: .9}, {Origin: "preset:a", Gain: -.2},
		{Origin: "preset:b", Gain: -.1}}
	if best, err := bestPreset(all); err != nil || best.Origin != "preset:b" {
		t.Error(best, err)
	}
	if _, err := bestPreset(all[:1]); err == nil {
		t.Error("there is a best preset without any")
	}
}
