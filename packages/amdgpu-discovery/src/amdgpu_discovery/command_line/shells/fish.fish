# Commands and options are in this file, so that TAB starts no program for them; for values it asks the program.

# Find what may stand behind the words of a command: `below`, its commands, and `flags`, its options, each with its help.
function __amd_ctk_place --no-scope-shadowing
    switch $argv[1]
# The table stands here.
        case '*'
            return 1
    end
    return 0
end

# Find what TAB offers: `__amd_ctk_offers` becomes lines of WORD and help. Fails where the program has to be asked.
function __amd_ctk_find
    set -l at amd-ctk
    set -l given
    set -l value ''
    set -l kind
    set -l below
    set -l flags
    set -l names
    set -l marks
    set -g __amd_ctk_offers
    __amd_ctk_place $at
    for word in $argv[2..-2]
        string match -qr '^[a-zA-Z0-9_./,:+-]+$' -- $word; or return
        if string match -q -- '*=*' $value
            string match -q -- '-*' $word; and return 1
            set value ''
        else if string match -q -- '-*' $word
            __amd_ctk_option $word; or return
            set -a given $names
            set value $marks
        else if set -q below[1]
            set at "$at $word"
            set given
            __amd_ctk_place $at; or return
        else if test "$kind" = ends
            return 1
        end
    end
    set -l word $argv[-1]
    if string match -q -- '-*' $word
        string match -q -- '*=*' $word $value; and return 1
        for entry in $flags
            __amd_ctk_read $entry
            contains -- $names[1] $given; and not string match -q -- '*\**' $marks; and continue
            for name in $names
                string match -q -- "$word*" $name; and set -a __amd_ctk_offers $name\t(string split -m1 : -- $entry)[2]
            end
        end
    else if string match -q -- '*=*' $value
        # No pattern of fish: in fish 4, ? stands for itself.
        string match -qr -- '[?]' $value; and return 1
    else
        for entry in $below
            string match -q -- "$word*" $entry; and set -a __amd_ctk_offers (string replace : \t -- $entry)
        end
        if test "$kind" = asks
            test -n "$word"; and set -q __amd_ctk_offers[1]; or return
        end
    end
    return 0
end

function __amd_ctk_option --no-scope-shadowing
    for entry in $flags
        __amd_ctk_read $entry
        contains -- $argv[1] $names; and return
    end
    return 1
end

# Find an option of the place: its `names`, and its `marks`, of which = takes a value, ? one that the program offers, and
# * stands for one that may be repeated.
function __amd_ctk_read --no-scope-shadowing
    set names (string split -n , -- (string split -m1 : -- $argv[1])[1])
    set marks ''
    if not string match -q -- '-*' $names[-1]
        set marks $names[-1]
        set -e names[-1]
    end
end

function __amd_ctk_offered
    if not __amd_ctk_find (commandline -opc) (commandline -ct)
        set -lx _AMD_CTK_COMPLETE complete_fish
        set -lx _TYPER_COMPLETE_FISH_ACTION get-args
        set -lx _TYPER_COMPLETE_ARGS (commandline -cp)
        set -g __amd_ctk_offers (amd-ctk)
    end
    set -q __amd_ctk_offers[1]
end

complete --command amd-ctk --no-files --condition __amd_ctk_offered --arguments '(printf "%s\n" $__amd_ctk_offers)'
