// Package stranger takes the path of somebody who has only what a release gives out: it installs the packed SDKs, runs the
// image, sends, looks up, backs up, loses the machine, restores and goes on. It has tests only.
package stranger
