#if MQTT
import Foundation
import TestSupport
import Testing

@testable import ReachableFleet

/// The shipped example of mosquitto's configuration, at a real broker: who may connect, and who may write what.
@Suite(.timeLimit(.minutes(2)), .serialized, .blocking, .enabled(if: hasBrokers, "run them with Scripts/brokers"))
struct AccessTests {
    /// The certificates and the broker that uses them.
    private final class Site: Sendable {
        let folder: URL
        let broker: TestBroker

        init() throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("certificates-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            let examples = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Packaging/mosquitto")
            let maker = examples.appendingPathComponent("make-certificates").path
            try TestBroker.run(maker, ["localhost", "nas", "kiosk", "operator"], in: folder)
            // An authority that the broker does not know.
            let other = folder.appendingPathComponent("other")
            try FileManager.default.createDirectory(at: other, withIntermediateDirectories: false)
            try TestBroker.run(maker, ["localhost", "nas"], in: other)
            func example(_ name: String) throws -> String {
                try String(contentsOf: examples.appendingPathComponent(name), encoding: .utf8)
            }
            let text =
                try example("mosquitto.conf").replacing("/etc/mosquitto/fleet", with: "FOLDER")
                .replacing("listener 8883", with: "listener PORT 127.0.0.1") + "log_dest stderr\n"
            var files = ["acl": Data(try example("acl").utf8)]
            for name in ["ca.pem", "broker.pem", "broker.key"] {
                files[name] = try Data(contentsOf: folder.appendingPathComponent(name))
            }
            broker = try TestBroker(.mosquitto, configuration: text, files: files)
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        /// Starts a member with the certificate of a name.
        func probe(
            _ node: String, of site: String = "home", as name: String? = nil, host: String = "localhost", ca: String = "ca.pem",
            folder other: String = ""
        ) throws -> ProbeMember {
            var options = ["ca=\(folder.appendingPathComponent(ca).path)"]
            if let name = name ?? Optional(node) {
                let base = folder.appendingPathComponent(other)
                options += ["cert=\(base.appendingPathComponent("\(name).pem").path)"]
                options += ["key=\(base.appendingPathComponent("\(name).key").path)"]
            }
            return try ProbeMember("mqtts://\(host):\(broker.port)", site, node, options)
        }

        func bareProbe(_ node: String, scheme: String = "mqtts") throws -> ProbeMember {
            let options = scheme == "mqtts" ? ["ca=\(folder.appendingPathComponent("ca.pem").path)"] : []
            return try ProbeMember("\(scheme)://localhost:\(broker.port)", "home", node, options)
        }
    }

    /// Returns the text of the failure that a member logs.
    private func failure(_ probe: ProbeMember) -> String {
        defer { probe.kill() }
        return probe.line("log") ?? "none"
    }

    @Test func nodesWriteBelowTheirOwnNamesOnly() throws {
        let site = try Site()
        let (nas, kiosk) = (try site.probe("nas"), try site.probe("kiosk"))
        #expect(nas.line("current")?.contains("nas=online") == true)
        #expect(kiosk.line("current")?.contains("kiosk=online") == true)
        // mosquitto confirms what it drops: no one sees the trigger, and the node is still there. The kiosk is told.
        kiosk.request("trigger refused")
        #expect(kiosk.line("trigger refused failed")?.contains("let this client write reach/v1/home/trigger/refused") == true)
        kiosk.request("forget nas")
        #expect(kiosk.line("forget nas failed")?.contains("let this client write reach/v1/home/nas/status") == true)
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current")?.contains("nas=online") == true)
        watcher.request("trigger allowed")
        #expect(nas.line("trigger") == "trigger allowed")
        #expect(kiosk.line("trigger") == "trigger allowed")
        for probe in [nas, kiosk, watcher] { probe.kill() }
    }

    /// mosquitto confirms what it drops, a will included.
    @Test func wordsForOtherNamesAndSitesAreDropped() throws {
        let site = try Site()
        #expect(failure(try site.probe("nas", as: "kiosk")).contains("shows them to no one"))
        #expect(failure(try site.probe("nas", of: "office")).contains("shows them to no one"))
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current") == "current ")
        watcher.kill()
    }

    @Test func strangersAreRefusedWithTheReason() throws {
        let site = try Site()
        // Of the alert, or of the reset that overtook it.
        let certificate = "this client's certificate"
        #expect(failure(try site.bareProbe("nas")).contains(certificate))
        #expect(failure(try site.probe("nas", folder: "other")).contains(certificate))
        #expect(failure(try site.probe("nas", ca: "other/ca.pem")).contains("is not trusted"))
        #expect(failure(try site.probe("nas", host: "127.0.0.1")).contains("has another name"))
        #expect(failure(try site.probe("nas", as: "missing")).contains("cannot be read"))
        #expect(failure(try site.bareProbe("nas", scheme: "mqtt")).contains("closed the connection before it was accepted"))
    }

    @Test func operatorForgetsANode() throws {
        let site = try Site()
        let nas = try site.probe("nas")
        #expect(nas.line("current")?.contains("nas=online") == true)
        let watcher = try site.probe("-", as: "operator")
        #expect(watcher.line("current")?.contains("nas=online") == true)
        nas.kill()
        #expect(watcher.line("node nas lost") != nil)
        watcher.request("forget nas")
        #expect(watcher.line("removed nas") != nil)
        watcher.kill()
    }

    @Test func passwordsComeFromAFileAndAreNeverShown() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("passwords-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (right, wrong) = (folder.appendingPathComponent("right"), folder.appendingPathComponent("wrong"))
        try Data("flabbergast\n".utf8).write(to: right)
        try Data("gobsmacked\n".utf8).write(to: wrong)
        let passwords = folder.appendingPathComponent("passwords")
        try TestBroker.run("/usr/bin/mosquitto_passwd", ["-b", "-c", passwords.path, "kiosk", "flabbergast"])
        let text = "listener PORT 127.0.0.1\nallow_anonymous false\npassword_file FOLDER/passwords\nlog_dest stderr\n"
        let broker = try TestBroker(.mosquitto, configuration: text, files: ["passwords": try Data(contentsOf: passwords)])
        let member = try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(right.path)"])
        #expect(member.line("current")?.contains("kiosk=online") == true)
        let title = try String(contentsOfFile: "/proc/\(member.identifier)/cmdline", encoding: .utf8)
        #expect(!title.contains("flabbergast"))
        member.kill()
        let refused = failure(try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(wrong.path)"]))
        #expect(refused.contains("refuses the user name or password") || refused.contains("does not authorise this client"))
        #expect(refused.contains("; next: ") && !refused.contains("gobsmacked"))
        let missing = failure(try ProbeMember(broker.url, "site", "kiosk", ["user=kiosk", "password=\(folder.path)/none"]))
        #expect(missing.contains("cannot be read"))
    }
}
#endif
