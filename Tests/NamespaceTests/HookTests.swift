import Foundation
import Glibc
import TestSupport
import Testing

/// `watch --exec` on a real cable.
///
/// Hooks write to standard error of `watch`, which the tests read.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct HookTests {
    /// A watch with a hook, and the lines that both write to standard error.
    private final class HookedWatch {
        let watch: WatchCommand
        let folder: TemporaryFolder
        private var lines: AsyncStream<String>.AsyncIterator

        init(_ network: CabledNetwork, _ script: String, _ options: [String] = []) async throws {
            folder = try TemporaryFolder()
            try folder.writeProgram("#!/bin/sh\n\(script)", to: "hook")
            watch = try WatchCommand(network, options: ["--exec", "\(folder.path)/hook"] + options)
            lines = watch.child.errors.makeAsyncIterator()
        }

        /// Returns the next line of a hook or a message.
        func next(_ location: SourceLocation = #_sourceLocation) async throws -> String {
            try #require(await lines.next(isolation: #isolation), "standard error has ended", sourceLocation: location)
        }

        /// Returns the lines up to the end of standard error: that of the watch and all processes of its hooks.
        func rest() async -> [String] {
            var rest: [String] = []
            while let line = await lines.next(isolation: #isolation) { rest.append(line) }
            return rest
        }

        func end(with signal: Int32 = SIGTERM) async -> Int32 {
            watch.child.signal(signal)
            return await watch.child.exitCode()
        }
    }

    @Test func aPulledCableRunsTheHook() async throws {
        let network = try await CabledNetwork.online()
        let file = network.marker("hook-log")
        defer { unlink(file) }
        let hooked = try await HookedWatch(
            network,
            """
            case $1 in online|offline) echo "$1 $REACHABILITY_EVENT $REACHABILITY_INTERFACE" >>\(file) ;; esac
            echo "$REACHABILITY_STATUS $REACHABILITY_REASON ${REACHABILITY_GATEWAY-no gateway}"
            """)
        #expect(try await hooked.next() == "online  192.0.2.1")
        try await network.pull()
        #expect(try await hooked.next() == "offline noCarrier no gateway")
        try await network.plug()
        #expect(try await hooked.next() == "online  192.0.2.1")
        #expect(await hooked.end() == 143)
        #expect(
            try String(contentsOfFile: file, encoding: .utf8) == """
                online baseline cable0
                offline transition\u{20}
                online transition cable0

                """)
        let rest = await hooked.rest()
        #expect(rest == [])
    }

    @Test func theHookHasNoInputAndNoOtherFile() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(
            network,
            """
            readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; grep SigBlk /proc/self/status
            ps -o pgid= -p $$ | tr -d ' '; echo $$
            """
        )
        #expect(try await hooked.next() == "/dev/null")
        // Input, output and error, and the directory that ls reads.
        #expect(try await hooked.next() == "4")
        #expect(try await hooked.next() == "SigBlk:\t0000000000000000")
        let group = try await hooked.next()
        #expect(try await hooked.next() == group)
        // Lines of JSON stay clean.
        #expect(try await hooked.watch.next().event == "baseline")
        #expect(await hooked.end(with: SIGINT) == 130)
    }

    @Test func aHookThatIgnoresTermIsKilled() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(
            network,
            """
            echo "$1"
            [ "$1" = offline ] && exit
            trap '' TERM
            setsid sh -c "trap '' TERM; while :; do sleep 1; done" &
            while :; do sleep 1; done
            """, ["--exec-timeout", "10s"])
        #expect(try await hooked.next() == "online")
        #expect(try await hooked.next().contains(" runs for longer than 10s and is ended; next: "))
        try await network.pull()
        #expect(try await hooked.next() == "offline")
        #expect(await hooked.end() == 143)
        // Standard error ends with the last process that has it.
        let rest = await hooked.rest()
        #expect(rest == [])
    }

    @Test func aStuckReaderDelaysNeitherHooksNorTheEnd() async throws {
        let network = try await CabledNetwork.online()
        let folder = try TemporaryFolder()
        let (hook, pipe) = ("\(folder.path)/hook", "\(folder.path)/pipe")
        // The shell would report that its sleep was ended, too.
        let text = """
            #!/bin/sh
            exec 2>/dev/null
            trap 'echo cleaned; exit' TERM
            echo $1
            [ $1 = online ] || while :; do sleep 0.05; done
            """
        try folder.writeProgram(text, to: "hook")
        // The pipe is full before the first line, and its only reader is the watch itself.
        let script = """
            mkfifo \(pipe) && exec 3<>\(pipe) && dd if=/dev/zero bs=65536 count=1 status=none >&3 && \
            exec "$0" watch --netns \(network.near.name) --exec \(hook) >&3
            """
        let watch = try Child(["sh", "-c", script, WatchCommand.path])
        var lines = watch.errors.makeAsyncIterator()
        #expect(await lines.next(isolation: #isolation) == "online")
        try await network.pull()
        #expect(await lines.next(isolation: #isolation) == "offline")
        watch.signal(SIGTERM)
        #expect(await lines.next(isolation: #isolation) == "cleaned")
        let end = ContinuousClock.now
        #expect(await watch.exitCode() == 143)
        // Not only after the time that a hook has, 11 s.
        #expect(ContinuousClock.now - end < .seconds(10))
    }

    @Test func theWatchEndsWithItsHook() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(
            network, "trap 'sleep 0.3; echo cleaned; exit' TERM; echo up; while :; do sleep 0.05; done")
        #expect(try await hooked.next() == "up")
        hooked.watch.child.signal(SIGTERM)
        while try await hooked.next() != "cleaned" {}
        let end = ContinuousClock.now
        #expect(await hooked.watch.child.exitCode() == 143)
        let took = ContinuousClock.now - end
        #expect(took < .milliseconds(100) * Machine.slowness, "it took \(took)")
    }

    @Test func aProcessThatKeepsTheOutputDelaysNothing() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(network, "[ $1 = offline ] || { sleep 1000 & echo $!; }; echo $1")
        let daemon = try #require(pid_t(try await hooked.next()))
        defer { kill(daemon, SIGKILL) }
        #expect(try await hooked.next() == "online")
        try await network.pull()
        #expect(try await hooked.next() == "offline")
        #expect(await hooked.end() == 143)
        #expect(kill(daemon, 0) == 0)
    }

    @Test func aBusyProgramIsStartedAgain() async throws {
        let network = try await CabledNetwork.online()
        let hook = network.marker("hook")
        defer { unlink(hook) }
        // ETXTBSY (execve(2)) while a process has it open for writing.
        let writer = try Child([
            "sh", "-c",
            "printf '#!/bin/sh\\necho $1\\n' >\(hook) && chmod 755 \(hook) && exec 3>>\(hook) && echo open && exec sleep 1000",
        ])
        var ready = writer.lines.makeAsyncIterator()
        #expect(await ready.next(isolation: #isolation) == "open")
        let watch = try Child([WatchCommand.path, "watch", "--netns", network.near.name, "--exec", hook])
        var lines = watch.errors.makeAsyncIterator()
        let message = try #require(await lines.next(isolation: #isolation))
        #expect(message.hasSuffix("cannot be started now: Text file busy (errno 26); it is tried again"), "\(message)")
        writer.signal(SIGKILL)
        #expect(await lines.next(isolation: #isolation) == "online")
        watch.signal(SIGTERM)
        #expect(await watch.exitCode() == 143)
    }

    @Test func aScriptWithoutItsFirstLineIsNoProgram() async throws {
        let network = try await CabledNetwork.online()
        let folder = try TemporaryFolder()
        let hook = "\(folder.path)/hook"
        try folder.writeProgram("echo no shell reads this", to: "hook")
        let watch = try Child([WatchCommand.path, "watch", "--netns", network.near.name, "--exec", hook])
        var lines = watch.errors.makeAsyncIterator()
        let message = try #require(await lines.next(isolation: #isolation))
        #expect(message.hasSuffix("cannot be executed: not a program; next: begin a script with a line such as #!/bin/sh"))
        watch.signal(SIGTERM)
        #expect(await watch.exitCode() == 143)
    }

    @Test func daemonsOfEarlierHooksAreSpared() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(
            network,
            """
            if [ "$1" = online ]; then
                sleep 100 >/dev/null 2>&1 & echo $!
            else
                echo stuck; exec sleep 100
            fi
            """, ["--exec-timeout", "10s"])
        let daemon = try #require(pid_t(try await hooked.next()))
        defer { kill(daemon, SIGKILL) }
        try await network.pull()
        #expect(try await hooked.next() == "stuck")
        #expect(try await hooked.next().contains("is ended"))
        #expect(await hooked.end() == 143)
        #expect(kill(daemon, 0) == 0)
    }

    @Test func aSlowHookSeesTheLastState() async throws {
        let network = try await CabledNetwork.online()
        let gate = network.marker("gate")
        #expect(mkfifo(gate, 0o600) == 0)
        defer { unlink(gate) }
        let hooked = try await HookedWatch(
            network, "echo \"$1 $REACHABILITY_SEQUENCE\"; case $REACHABILITY_EVENT in baseline) read line <\(gate) ;; esac",
            ["--raw"])
        #expect(try await hooked.next() == "online 0")
        let near = network.near
        // A lost carrier would be announced a second later.
        for _ in 1...3 {
            try await hooked.watch.expect("unsatisfied", "noRoute") { try await near.ip("route del default") }
            try await hooked.watch.expect("satisfied") { try await near.ip("route add default via 192.0.2.1") }
        }
        try await hooked.watch.expect("unsatisfied", "noRoute") { try await near.ip("route del default") }
        #expect(try await hooked.next().contains(" dropped: newer ones came while a hook ran; next: "))
        try await Child.run(["sh", "-c", "echo go >\(gate)"])
        while try await hooked.next() != "offline 7" {}
        #expect(await hooked.end() == 143)
        let message = try #require(await hooked.rest().last)
        #expect(message.hasSuffix(" of 8 transitions dropped in all"), "\(message)")
    }

    @Test(arguments: [(SIGTERM, 143), (SIGINT, 130), (SIGHUP, 129)] as [(Int32, Int32)])
    func aSignalEndsTheHookFirst(signal: Int32, code: Int32) async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(
            network, "trap 'echo cleaned; exit' TERM; echo up; while :; do sleep 0.05; done")
        #expect(try await hooked.next() == "up")
        #expect(await hooked.end(with: signal) == code)
        let rest = await hooked.rest()
        // The shell may say "Terminated" about its sleep.
        #expect(rest.last == "cleaned")
    }

    @Test func theCountEndsTheHook() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(network, "echo up; exec sleep 100", ["--count", "2"])
        #expect(try await hooked.next() == "up")
        try await network.pull()
        #expect(await hooked.watch.child.exitCode() == 0)
        let rest = await hooked.rest()
        #expect(rest == [])
    }

    @Test(arguments: ["\\033[31mred", "a\\377b", "$(id>x)", "`id`;id|", "\\342\\200\\256evil", "a\\134b", "-rf", "\"'<b>&"])
    func hostileNamesAreBytesAndRunNothing(octal: String) async throws {
        let network = try await CabledNetwork()
        let namespace = network.near.name
        try await Child.run([
            "sh", "-c",
            """
            set -e
            n="$(printf -- "$0")"
            ip -n \(namespace) link set dev cable0 name "$n"
            ip -n \(namespace) link set dev "$n" up
            ip -n \(namespace) addr add 192.0.2.10/24 dev "$n"
            ip -n \(namespace) route add default via 192.0.2.1 dev "$n"
            """, octal,
        ])
        let hooked = try await HookedWatch(
            network, "printf %s \"$REACHABILITY_INTERFACE\" | od -An -tx1; cd ${0%/*}; ls | wc -l; echo \"$#\"")
        let expected = try await Child.run(["sh", "-c", "printf -- \"$0\" | od -An -tx1", octal]).output
        #expect(try await hooked.next() == expected)
        // Only the hook itself: no command has written a file.
        #expect(try await hooked.next() == "1")
        #expect(try await hooked.next() == "1")
        #expect(await hooked.end() == 143)
    }

    @Test func missingProgramsEndTheWatch() async throws {
        let network = try await CabledNetwork.online()
        let watch = [WatchCommand.path, "watch", "--netns", network.near.name, "--exec"]
        for (program, code, text) in [
            ("no-such-program", 127, "no-such-program was not found; next: install it, or correct the PATH"),
            ("/etc/passwd", 126, "/etc/passwd cannot be executed: permission denied; next: chmod +x"),
            ("/etc", 126, "/etc cannot be executed: it is a directory; next: name a program in it"),
        ] as [(String, Int32, String)] {
            let result = try await Child.run(watch + [program], allowFailure: true)
            #expect(result.code == code && result.output == "reachability-watch: --exec: \(text)")
        }
    }

    @Test func programsAreFoundByBytesAndInThePath() async throws {
        let network = try await CabledNetwork.online()
        let folder = network.marker("path")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let script = """
            mkdir \(folder) && cd \(folder) && name=$(printf 'c\\377') || exit 99
            printf '#!/bin/sh\\necho "$1"; kill $PPID\\n' >"$name" && chmod 755 "$name" && export PATH=.:$PATH || exit 98
            "$0" watch --netns \(network.near.name) "--exec=./$name" 2>&1 >/dev/null
            "$0" watch --netns \(network.near.name) "--exec=$name" 2>&1 >/dev/null
            "$0" watch --netns \(network.near.name) --exec "$name" 2>&1 >/dev/null
            exit 0
            """
        #expect(try await Child.run(["sh", "-c", script, WatchCommand.path]).output == "online\nonline\nonline")
    }

    @Test func failuresAreReported() async throws {
        let network = try await CabledNetwork.online()
        let hooked = try await HookedWatch(network, "exit 3")
        #expect(try await hooked.next() == "reachability-watch: hook \(hooked.folder.path)/hook: exit code 3")
        #expect(await hooked.end() == 143)
    }

    @Test func aReaderThatLeavesEndsTheHookToo() async throws {
        let network = try await CabledNetwork.online()
        let script = """
            printf '#!/bin/sh\\ntrap "echo cleaned; exit" TERM; echo up; while :; do sleep 0.05; done\\n' >\(network.marker("hook"))
            chmod 755 \(network.marker("hook"))
            { "$0" watch --netns \(network.near.name) --exec \(network.marker("hook")); echo "code $?" >&2; } | head -n 1 >/dev/null
            """
        defer { unlink(network.marker("hook")) }
        let result = try await Child.run(["bash", "-c", script, WatchCommand.path])
        let lines = result.output.split(separator: "\n")
        // The reader may leave before the hook has set its trap.
        #expect(lines.last == "code 0" && (lines.count == 1 || lines.first == "up"), "\(lines)")
    }
}
