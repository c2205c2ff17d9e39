import Foundation
import Testing

/// The code blocks of documents, and the compiled files that they show.
enum Documents {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The Swift code blocks of a document.
    static func swiftBlocks(_ path: String) throws -> [String] {
        try text(path).components(separatedBy: "```swift\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
    }

    /// Checks that code blocks occur in compiled files.
    static func expect(_ shown: [String], toBeTheFilesOf path: String, _ location: SourceLocation = #_sourceLocation) throws {
        let folder = root.appendingPathComponent(path)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
        var compiled: [String: String] = [:]
        for name in names {
            compiled[try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)] = name
        }
        for block in shown {
            #expect(compiled[block] != nil, "no file in \(folder.path) says this:\n\(block)", sourceLocation: location)
        }
        for (text, name) in compiled {
            #expect(shown.contains(text), "\(name) is not in the text as it is", sourceLocation: location)
        }
        #expect(shown.count == names.count, sourceLocation: location)
    }
}
