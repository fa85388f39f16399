#!/bin/bash
# build_kubernetes.sh KEPT: prints the folder that holds `hyperkube` (kube-apiserver, kube-controller-manager, kube-scheduler, kubelet
# by the name it is called by), etcd, containerd, its shim, the CNI plugins and a static `pause`.
# The build is made once per KEPT and recipe, from packages of Debian bookworm only; a second call answers at once. It needs no root.
# PARTS=control leaves out the kubelet and containerd (for virtual kubelets only). Nothing is downloaded but by apt.
set -euo pipefail
KEPT=$(realpath -m "$1"); PARTS=${PARTS:-node}
SELF=$(realpath "$0"); HASH=$( { cat "$SELF"; echo "$PARTS"; } | sha256sum | cut -c1-8); DONE=$KEPT/k8s-$HASH
mkdir -p "$KEPT"; exec 9> "$KEPT/k8s.lock"; flock 9
[ -f "$DONE/made" ] && { echo "$DONE"; exit; }
W=$(mktemp -d "$KEPT/k8s-work.XXXX"); trap 'rm -rf "$W"' EXIT
mkdir -p $W/{apt/lists/partial,apt/cache/archives/partial,apt/state,debs,root,ref,out,tmp,gopath/src/k8s.io}; t0=$(date +%s); say() { echo "[$(( $(date +%s) - t0 ))s] $*" >&2; }

# Sources of bookworm, wherever this machine's apt gets it: a private apt, so that the machine's own lists stay as they are.
URI=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -1); KEY=/usr/share/keyrings/debian-archive-keyring.gpg
printf '%s [signed-by=%s] %s bookworm main\n' deb "$KEY" "$URI" deb-src "$KEY" "$URI" > $W/apt/sources.list
cat > $W/apt/conf <<C
Dir::Etc::sourcelist "$W/apt/sources.list"; Dir::Etc::sourceparts "/dev/null"; Dir::State "$W/apt/state"; Dir::State::lists "$W/apt/lists";
Dir::State::status "$W/apt/state/status"; Dir::Cache "$W/apt/cache"; APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "3";
C
touch $W/apt/state/status; export APT_CONFIG=$W/apt/conf
apt-get -qq update >&2; say lists
( cd $W/debs
  apt-get -qq download golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev etcd-server $( [ $PARTS = control ] || echo containerd containernetworking-plugins runc ) >&2
  apt-get -qq source --download-only kubernetes >&2
  for d in golang-1.19*.deb etcd-server*.deb $( [ $PARTS = control ] || ls containerd_*.deb containernetworking*.deb runc_*.deb ); do dpkg-deb -x $d $W/root; done
  dpkg-deb -x golang-github-modern-go-reflect2-dev*.deb $W/ref
  dpkg-source --no-check -x kubernetes_*.dsc $W/gopath/src/k8s.io/kubernetes >&2 ); say unpacked

export GOROOT=$W/root/usr/lib/go-1.19 GOPATH=$W/gopath GOCACHE=$W/gocache GOTMPDIR=$W/tmp HOME=$W/tmp CGO_ENABLED=0 GO111MODULE=off GOFLAGS= GOPROXY=off PATH=$W/root/usr/lib/go-1.19/bin:$PATH
cd $W/gopath/src/k8s.io/kubernetes
V=vendor/github.com/modern-go/reflect2; rm -f $V/*.go $V/*.s; cp $W/ref/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} $V/  # 1.0.1 crashes on Go >= 1.18
go build -o $W/tmp/openapi-gen ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
dirs=$( { grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd plugin; for m in staging/src/k8s.io/*; do case $m in */code-generator|*/sample-apiserver) ;; *) grep -rl --include='*.go' '+k8s:openapi-gen=' $m | sed 's#^staging/src/#vendor/#' || true;; esac; done; } | xargs -n1 dirname | LC_ALL=C sort -u )
$W/tmp/openapi-gen --logtostderr -i "$(echo "$dirs" | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r $W/tmp/report
say openapi

# One program for all: shared code is linked once, which saves time and most of the room.
mkdir -p cmd/drumlab; imports= cases=
add() { imports="$imports
	$1 \"k8s.io/kubernetes/cmd/$2/app\""; cases="$cases
	case \"$2\":
		c = $1.$3"; }
add api kube-apiserver 'NewAPIServerCommand()'; add kcm kube-controller-manager 'NewControllerManagerCommand()'; add sched kube-scheduler 'NewSchedulerCommand()'
[ $PARTS = control ] || add let kubelet 'NewKubeletCommand()'
cat > cmd/drumlab/main.go <<G
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"$imports
)

func main() {
	var c *cobra.Command
	name := filepath.Base(os.Args[0])
	switch name {$cases
	default:
		fmt.Fprintln(os.Stderr, "call it by the name of a component")
		os.Exit(2)
	}
	if name != "kubelet" {
		c.SetGlobalNormalizationFunc(flag.WordSepNormalizeFunc)
	}
	if c.Execute() != nil {
		os.Exit(1)
	}
}
G
LD="-s -w"; for p in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
  LD="$LD -X $p.gitVersion=v1.20.2 -X $p.gitMajor=1 -X $p.gitMinor=20 -X $p.gitTreeState=clean -X $p.buildDate=1970-01-01T00:00:00Z"; done
go build -tags providerless -trimpath -ldflags "$LD" -o $W/out/hyperkube ./cmd/drumlab; say built
for c in kube-apiserver kube-controller-manager kube-scheduler kubelet; do ln -s hyperkube $W/out/$c; done
cp $W/root/usr/bin/etcd $W/out/
if [ $PARTS != control ]; then
  gcc -Os -static -s -o $W/out/pause build/pause/linux/pause.c
  cp $W/root/usr/bin/{containerd,containerd-shim-runc-v2,ctr} $W/root/usr/sbin/runc $W/out/; mkdir $W/out/cni; cp $W/root/usr/lib/cni/{bridge,host-local,loopback,portmap} $W/out/cni/
fi
( cd $W/out; ls -l >&2; sha256sum hyperkube > made )
rm -rf "$DONE"; mv $W/out "$DONE"; say done; echo "$DONE"
