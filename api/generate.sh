#!/bin/sh
# Rebuilds the generated code under api/, the OpenAPI document and the pages of docs/reference. The plugins come from go.mod;
# protoc is the system's.
set -eu
cd "$(dirname "$0")"

if ! command -v protoc >/dev/null 2>&1; then
	echo "generate.sh: protoc is missing: install it (Debian: apt-get install protobuf-compiler libprotobuf-dev; macOS: brew install protobuf), then run this again" >&2
	exit 1
fi

plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
go build -o "$plugins/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc \
	github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway

PATH="$plugins:$PATH" protoc \
	--proto_path=. \
	--go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative \
	--grpc-gateway_out="$plugins" --grpc-gateway_opt=paths=source_relative,standalone=true \
	--include_imports --include_source_info --descriptor_set_out="$plugins/descriptors" \
	autosched/v1/*.proto
rm -f rest/*.pb.gw.go
for f in "$plugins"/autosched/v1/*.pb.gw.go; do
	sed -e 's/^package autoschedv1$/package rest/' -e 's/^Package autoschedv1 /Package rest /' "$f" >"rest/$(basename "$f")"
done
go run ./reference "$plugins/descriptors" ../docs/reference rest/openapi.json "$plugins/plain"

# Python's code depends on the version of protoc, and runs with this one's and later packages.
if command -v grpc_python_plugin >/dev/null 2>&1 && protoc --version | grep -q ' 3\.21\.'; then
	rm -f ../python/autosched/v1/*_pb2.py ../python/autosched/v1/*_pb2_grpc.py
	protoc --descriptor_set_in="$plugins/plain" --python_out=../python --grpc_python_out=../python \
		--plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" autosched/v1/*.proto
else
	echo "generate.sh: python/autosched/v1 is left as it is: it needs grpc_python_plugin and protoc 3.21" >&2
	[ -z "${CI:-}" ]
fi

# The version of protoc differs between machines and changes nothing else.
for f in autosched/v1/*.pb.go; do
	sed -i.bak '/^\/\/[[:space:]-]*protoc[[:space:]]*(*[v0-9.unkow]*)*$/d' "$f"
	rm -f "$f.bak"
done
