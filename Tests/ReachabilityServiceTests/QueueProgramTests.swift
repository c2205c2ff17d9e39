#if SQLite
import Foundation
import TestSupport
import Testing

/// The built commands on a store of their own, as a person uses them.
@Suite(.timeLimit(.minutes(10)), .blocking)
struct QueueProgramTests {
    @Test func storedCommandsRunAndAreRemembered() throws {
        let desk = try QueueDesk()
        let good = try desk.add("echo to output; echo to errors >&2; pwd; echo $REACHABILITY_JOB:$REACHABILITY_ATTEMPT")
        let bad = try desk.add("exit 3", "--attempts", "2", "--backoff", "constant:10ms")
        #expect(try desk.run("show", good).code == 2)
        #expect(try desk.run("run", "--drain").code == 0)
        let shown = try desk.run("show", good)
        #expect(shown.code == 0 && shown.output.contains("succeeded"))
        #expect(try desk.run("log", good).lines == ["to output", "to errors", desk.directory, "\(good):1"])
        #expect(try desk.run("show", bad).code == 1)
        let job = try #require(try desk.list().first { $0["id"] as? String == bad })
        #expect(job["state"] as? String == "failed" && job["exitCode"] as? Int == 3 && job["attempts"] as? Int == 2)
        #expect(try desk.run("retry", bad).code == 0)
        #expect(try desk.run("show", String(bad.prefix(24))).code == 2)
        #expect(try desk.run("cancel", bad).code == 0)
        #expect(try desk.run("cancel", bad).code == 1)
        #expect(try desk.run("prune").lines == ["2"])
        #expect(try desk.list().isEmpty && desk.run("log", good).code == 66)
    }

    @Test func commandsOfASerialKeyRunInOrder() throws {
        let desk = try QueueDesk()
        for number in 1...6 { _ = try desk.add("echo \(number) >> order", "--serial", "s") }
        #expect(try desk.run("run", "--drain", "--jobs", "4").code == 0)
        #expect(desk.lines(of: "order") == (1...6).map { "\($0)" })
    }

    @Test func aNameIsReplacedOnceItHasNotStarted() throws {
        let desk = try QueueDesk()
        let first = try desk.add("echo old >> out", "--name", "n")
        #expect(try desk.add("echo new >> out", "--name", "n") == first)
        #expect(try desk.run("run", "--drain").code == 0)
        #expect(desk.lines(of: "out") == ["new"])
    }

    @Test func aPausedQueueIsBlocked() throws {
        let desk = try QueueDesk()
        _ = try desk.add("echo ran >> out")
        #expect(try desk.run("pause").code == 0)
        let drained = try desk.run("run", "--drain")
        #expect(drained.code == 1 && drained.errors.contains("paused") && desk.lines(of: "out").isEmpty)
        #expect(try desk.run("resume").code == 0)
        #expect(try desk.run("run", "--drain").code == 0)
        #expect(desk.lines(of: "out") == ["ran"])
    }

    @Test func aStoppedWorkerEndsItsCommandsWithTheirDescendants() throws {
        let desk = try QueueDesk()
        let fifo = "\(desk.directory)/started"
        try #require(mkfifo(fifo, 0o600) == 0)
        // A descendant of its own session, which holds the pipe open.
        let id = try desk.add("exec 3>started; echo up >&3; setsid sleep 1000 & sleep 1000")
        let worker = try desk.start(["run"])
        let pipe = try FileHandle(forReadingFrom: URL(fileURLWithPath: fifo))
        #expect(pipe.readData(ofLength: 3) == Data("up\n".utf8))
        worker.terminate()
        // The end of the stream: every holder of the other side has ended.
        #expect(pipe.readDataToEndOfFile().isEmpty)
        #expect(worker.end() == 143)
        let job = try #require(try desk.list().first { $0["id"] as? String == id })
        #expect(job["state"] as? String == "available" && job["charged"] as? Int == 0)
    }

    @Test func aKilledWorkersCommandEndsBeforeItRunsAgain() throws {
        let desk = try QueueDesk()
        let fifo = "\(desk.directory)/started"
        try #require(mkfifo(fifo, 0o600) == 0)
        // The lock shows two commands that run at the same time.
        _ = try desk.add(
            "exec 9>lock; flock -n 9 || echo overlap >> out; [ -e second ] && exit; touch second; echo up >started; sleep 1000")
        let first = try desk.start(["run"])
        let pipe = try FileHandle(forReadingFrom: URL(fileURLWithPath: fifo))
        #expect(pipe.readData(ofLength: 3) == Data("up\n".utf8))
        first.kill()
        #expect(try desk.run("run", "--drain").code == 0)
        #expect(desk.lines(of: "out").isEmpty)
        #expect(try desk.list().first?["attempts"] as? Int == 2)
    }

    @Test func listNamesTheWorkers() throws {
        let desk = try QueueDesk()
        let fifo = "\(desk.directory)/started"
        try #require(mkfifo(fifo, 0o600) == 0)
        let id = try desk.add("echo up >started; exec sleep 1000")
        let idle = try desk.run("list", "--workers")
        #expect(idle.code == 0 && idle.output.isEmpty)
        #expect(idle.errors == "reachability-watch: no worker runs; next: reachability-watch queue run\n")
        #expect(try desk.run("list").lines.dropFirst() == ["    waits for a worker: none runs"])

        let worker = try desk.start(["run"])
        let pipe = try FileHandle(forReadingFrom: URL(fileURLWithPath: fifo))
        #expect(pipe.readData(ofLength: 3) == Data("up\n".utf8))
        let host = try String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8).filter { $0 != "\n" }
        let listed = try desk.run("list").lines
        #expect(listed.count == 2 && listed[0].hasPrefix(id.prefix(12)))
        #expect(listed[1].hasPrefix("worker on \(host): runs 1 command, heard from ") && listed[1].hasSuffix("s ago"))
        let alone = try desk.run("list", "--workers").lines
        #expect(alone.count == 1 && alone[0].hasPrefix("worker on \(host): "))
        let objects = try desk.run("list", "--workers", "--format", "json").lines
        #expect(objects.count == 1 && objects[0].contains(#""host":"\#(host)","process":null,"claims":1,"sinceHeartbeat":"#))
        #expect(try desk.list().map { $0["worker"] as? String } == [host])
        #expect(try desk.run("show", id).output.contains("worker     \(host)\n"))
        worker.terminate()
        worker.waitUntilExit()
        #expect(try desk.list().map { $0["worker"] is NSNull } == [true])
        #expect(try desk.run("list", "--workers", "--state", "all").code == 64)
    }

    @Test func theEnvironmentNamesTheStore() throws {
        let desk = try QueueDesk()
        let id = try desk.run(["add", "--connectivity", "ignore", "--", "true"], variable: desk.store).id
        #expect(try desk.run("show", id).code == 2)
        #expect(try desk.run(["run", "--drain"], variable: desk.store).code == 0)
        // The option goes first.
        #expect(try desk.run(["show", id, "--store", desk.store], variable: "/absent").code == 0)
        let absent = try desk.run(["list"], variable: "/absent")
        #expect(absent.code == 66 && absent.errors.contains("there is no queue at /absent"))
    }

    @Test(arguments: [
        ["add", "--", "true"], ["run", "--drain"], ["list"], ["show", "0"], ["log", "0"], ["retry", "0"], ["cancel", "0"],
        ["pause"], ["resume"], ["prune"],
    ])
    func aPasswordInTheEnvironmentIsRefused(words: [String]) throws {
        let refused = try QueueDesk().run(words, variable: "postgres://ada:secret@127.0.0.1:1/db")
        #expect(refused.code == 64 && refused.errors.contains("REACHABILITY_QUEUE_STORE has a password"))
        #expect(refused.errors.contains("~/.pgpass") && !refused.errors.contains("secret"))
    }

    @Test func hostileWordsAreEscaped() throws {
        let desk = try QueueDesk()
        let hostile = "\u{1b}]0;owned\u{7}\u{202e}"
        _ = try desk.run("add", "--name", hostile, "--", "echo", hostile, "$(touch owned)", "`id`")
        let listed = try desk.run("list").output
        #expect(!listed.unicodeScalars.contains { $0 == "\u{1b}" || $0 == "\u{202e}" || $0 == "\u{7}" })
        #expect(try desk.list().first?["command"] as? [String] == ["echo", hostile, "$(touch owned)", "`id`"])
        #expect(!FileManager.default.fileExists(atPath: "\(desk.directory)/owned"))
    }

    @Test func theLastLineOfATerminalShowsWhyCommandsWait() throws {
        let desk = try QueueDesk()
        let id = try desk.add("true")
        #expect(try desk.run("pause").code == 0)
        // script(1) gives the worker a terminal, of 80 columns.
        let script = ["script", "-qec", "exec \(desk.program) queue run --store \(desk.store)", "/dev/null"]
        let (process, output) = (Process(script, variables: ["TERM": "xterm"]), Pipe())
        process.standardOutput = output
        try process.run()
        var text = ""
        while !text.contains("paused"), let more = try output.fileHandleForReading.read(upToCount: 1), !more.isEmpty {
            text += String(decoding: more, as: UTF8.self)
        }
        #expect(text.contains("\u{1b}[?7l1 waiting; \(id.prefix(12)) "), "\(text.debugDescription)")
        process.terminate()
        process.waitUntilExit()
    }

    @Test func storesOfOthersAreRefused() throws {
        let desk = try QueueDesk()
        try desk.folder.write("not a database, but long enough to be one", to: "q/queue.db")
        let foreign = try desk.run("add", "--", "true")
        #expect(foreign.code == 77 || foreign.code == 65, "\(foreign)")
        chmod(desk.store, 0o600)
        #expect(try desk.run("add", "--", "true").code == 65)
        chmod(desk.store, 0o666)
        let writable = try desk.run("list")
        #expect(writable.code == 77 && writable.errors.contains("next:"))
        #expect(desk.folder.read("q/queue.db").utf8.count == 41)
    }

    @Test func aDirectoryOfAnotherUserIsRefused() throws {
        let desk = try QueueDesk()
        try #require(chown(desk.folder.makeFolder("q"), 65_534, 65_534) == 0, "root is needed")
        for words in [["add", "--", "true"], ["list"], ["run", "--drain"]] {
            let refused = try desk.run(words)
            #expect(refused.code == 77 || refused.code == 66, "\(words): \(refused)")
        }
        let refused = try desk.run("add", "--", "true")
        #expect(refused.code == 77 && refused.errors.contains("belongs to another user; next: "))
    }

    @Test func missingStoresAndJobsAreReported() throws {
        let desk = try QueueDesk()
        #expect(try desk.run("list").code == 66)
        _ = try desk.add("true")
        #expect(try desk.run("show", "ffff").code == 66 && desk.run("show", "; rm").code == 66 && desk.run("frob").code == 64)
        #expect(try desk.run("add").code == 64)
        #expect(try desk.run("run", "--drain").code == 0)
    }

    @Test func aMissingDirectoryIsAFailedAttempt() throws {
        let desk = try QueueDesk()
        let folder = try desk.folder.makeFolder("gone")
        #expect(try desk.run(["add", "--attempts", "1", "--connectivity", "ignore", "--", "true"], in: folder).code == 0)
        try FileManager.default.removeItem(atPath: folder)
        #expect(try desk.run("run", "--drain").code == 0)
        let job = try #require(try desk.list().first)
        #expect(job["state"] as? String == "failed" && (job["lastError"] as? String)?.contains("cannot be entered") == true)
    }

    @Test func outputOfTheLastAttemptsIsKept() throws {
        let desk = try QueueDesk()
        let id = try desk.add("exit 1", "--attempts", "7", "--backoff", "constant:1ms")
        #expect(try desk.run("run", "--drain").code == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: "\(desk.store).output")
        #expect(Set(names) == Set((3...7).map { "\(id).\($0)" }))
    }

    @Test func onlyTheEndOfLongOutputIsKept() throws {
        let desk = try QueueDesk()
        let id = try desk.add("i=0; while [ $i -lt 80 ]; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo; echo end")
        #expect(try desk.run("run", "--drain").code == 0)
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: "\(desk.store).output/\(id).1"))
        let size = lseek(file.fileDescriptor, 0, SEEK_END)
        #expect(size == 80 * 65_536 + 5)
        // The beginning is a hole (SEEK_DATA of lseek(2), which Swift does not import).
        #expect(size - lseek(file.fileDescriptor, 0, 3) <= 3 << 20)
    }
}
#endif
