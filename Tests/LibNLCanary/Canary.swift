// The names are libnl's.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

import CNetlink
import Reachability

// Compiles only while neither import shows libnl's functions. Each of these generic functions loses against libnl's own of
// the same name, which is not generic, and the result is then of another type than the one demanded below.

private struct Hidden {}

private func nl_geterror<Argument>(_ argument: Argument) -> Hidden { Hidden() }
private func nl_nlmsgtype2str<Argument, Text, Size>(_ argument: Argument, _ text: Text, _ size: Size) -> Hidden { Hidden() }
private func nlmsg_size<Argument>(_ argument: Argument) -> Hidden { Hidden() }
private func nla_total_size<Argument>(_ argument: Argument) -> Hidden { Hidden() }
private func rtnl_scope2str<Argument, Text, Size>(_ argument: Argument, _ text: Text, _ size: Size) -> Hidden { Hidden() }

private func demand(_: Hidden) {}

private func libNLIsHidden(text: UnsafeMutablePointer<CChar>) {
    let error = nl_geterror(Int32(0))
    let type = nl_nlmsgtype2str(Int32(0), text, 0)
    let message = nlmsg_size(Int32(0))
    let attribute = nla_total_size(Int32(0))
    let scope = rtnl_scope2str(Int32(0), text, 0)
    demand(error)
    demand(type)
    demand(message)
    demand(attribute)
    demand(scope)
}
