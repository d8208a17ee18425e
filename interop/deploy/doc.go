// Package deploy starts what deploy/ gives to others. There is no container engine where tests run, so a container is a
// directory that is the root of its processes: with the program of the image, and the files, arguments, variables and
// users that the compose file, the manifests, the unit or the page give. The commands of the pages are run as they are
// written, by a shell; docker, kubectl and the like are answered by the test.
package deploy
