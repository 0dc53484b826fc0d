# Commands and options are in this file, so that TAB starts no program for them; for values it asks the program.

# Find what may stand behind the words of a command: `below`, its commands, and `flags`, its options, each with its help.
_amd_ctk_place() {
    case $1 in
# The table stands here.
    *) return 1 ;;
    esac
}

# Find what TAB offers behind words, of which the last one is being typed: `offers` becomes lines of WORD:HELP.
# Fails where the program has to be asked: for values, and for words that the table does not have.
_amd_ctk_find() {
    local at=$1 given=, value= word= entry= head= names= marks=
    offers=()
    _amd_ctk_place "$at" || return
    shift
    while (($# > 1)); do
        word=$1
        shift
        case $word in
        "" | *[!a-zA-Z0-9_./,:+-]*) return 1 ;;
        esac
        if [[ $value == *=* ]]; then
            [[ $word != -* ]] || return
            value=
        elif [[ $word == -* ]]; then
            _amd_ctk_option "$word" || return
            given+=$names
            value=$marks
        elif ((${#below[@]})); then
            at+=" $word"
            given=,
            _amd_ctk_place "$at" || return
        else
            [[ $kind != ends ]] || return
        fi
    done
    word=$1
    if [[ $word == -* ]]; then
        [[ $word != *=* && $value != *=* ]] || return
        for entry in "${flags[@]}"; do
            _amd_ctk_read "$entry"
            [[ $given != *"$names"* || $marks == *'*'* ]] || continue
            names=${names#,}
            while [[ -n $names ]]; do
                [[ $names != "$word"* ]] || offers+=("${names%%,*}:${entry#*:}")
                names=${names#*,}
            done
        done
    elif [[ $value == *=* ]]; then
        [[ $word != '=' && $value != *'?'* ]] || return
    else
        for entry in "${below[@]}"; do
            [[ $entry != "$word"* ]] || offers+=("$entry")
        done
        [[ $kind != asks ]] || { [[ -n $word ]] && ((${#offers[@]})); }
    fi
}

# Find an option of the place: its `names`, and its `marks`, of which = takes a value, ? one that the program offers, and
# * stands for one that may be repeated.
_amd_ctk_option() {
    for entry in "${flags[@]}"; do
        _amd_ctk_read "$entry"
        [[ $names != *",$1,"* ]] || return 0
    done
    return 1
}

_amd_ctk_read() {
    head=${1%%:*}
    marks=${head##*,}
    names=${head%,*},
}
